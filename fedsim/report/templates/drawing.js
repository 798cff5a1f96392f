/* What pages draw and write with: numbers as the rest of the page has them, tables, and two kinds of charts. */

const SMALL_SPACE = '\u202f', FIXED_SPACE = '\u00a0';
const byId = (id) => document.getElementById(id);

/** Write a share of one as a percentage. */
function percent(share) {
  if (share < 1e-12) return `0${SMALL_SPACE}%`;
  if (share === 1) return `100${SMALL_SPACE}%`;
  if (share < 0.0005) return `<${SMALL_SPACE}0.1${SMALL_SPACE}%`;
  return `${(100 * share).toFixed(1)}${SMALL_SPACE}%`;
}

/** Write a number with three digits that count, its thousands separated. */
function digits(value) {
  if (value === 0) return '0';
  if (Math.abs(value) < 0.001 || Math.abs(value) >= 1e6) return value.toExponential(1).replace('-', '\u2212').replace('+', '');
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const [whole, part] = value.toFixed(decimals).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return part && Number(part) ? `${grouped}.${part.replace(/0+$/, '')}` : grouped;
}

/** Write how many times as many: two decimals, below ten and unless it is almost nothing. */
const times = (value) => (value >= 0.095 && value < 9.995 ? value.toFixed(2) : digits(value));

/** Write a whole number. */
const whole = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ',');

/** Write the first letter as a capital. */
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Say which bar has the most turns, which the least, and how many times as many. */
function contrast(shares) {
  const most = shares.indexOf(Math.max(...shares)), least = shares.indexOf(Math.min(...shares));
  return { most, least, ratio: shares[most] / shares[least] };
}

/** Show texts in a list of key figures: value, label, detail. */
function showTiles(list, tiles) {
  list.replaceChildren(...tiles.map(([value, label, detail]) => {
    const tile = document.createElement('div'), about = document.createElement('dt'), found = document.createElement('dd');
    about.textContent = label;
    found.append(Object.assign(document.createElement('b'), { textContent: value }));
    if (detail) found.append(Object.assign(document.createElement('span'), { textContent: detail }));
    tile.append(about, found);
    return tile;
  }));
}

/** Show rows of texts in the body of a table. */
function showRows(table, rows) {
  table.tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = document.createElement('tr');
    cells.forEach((text, index) => {
      const cell = row.insertCell();
      cell.textContent = text;
      if (index === 0) cell.className = 'word';
    });
    return row;
  }));
}

/** Return steps of 1, 2 or 5 times a power of ten from 0 to the top, at most so many. */
function ticks(top, most = 6, least = 0) {
  const rough = Math.max(top / most, least), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * (1 - 1e-9));
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(9)));
}

/** Empty a picture and return its width and what draws into it; a picture is as wide as its place, so that text keeps its size. */
function canvas(svg, height) {
  const width = Math.max(260, Math.min(576, svg.closest('figure').clientWidth || 480));
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren(...svg.querySelectorAll('title, desc'));
  const draw = (tag, attributes, text) => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text !== undefined) element.textContent = text;
    return svg.appendChild(element);
  };
  return { width, draw };
}

const MEASURED = 'var(--series-1)', THEORY = 'var(--series-2)', RULE = 'var(--rule)', INK = 'var(--ink)', LINE = 20;

/** Name the colours of a chart above it: [class of the colour, words] each. */
function showLegend(svg, entries) {
  byId(svg.id.replace('-picture', '-legend')).replaceChildren(...entries.map(([kind, words]) => {
    const entry = document.createElement('span');
    entry.append(Object.assign(document.createElement('i'), { className: kind }), words);
    return entry;
  }));
}

/** Draw a bar for each {name, value, measured}, in multiples of a fair share; `top` is the end of the axis. */
function drawBars(svg, rows, top, words) {
  const height = rows.length * LINE + 46, { width, draw } = canvas(svg, height);
  const longest = Math.min(width < 400 ? 14 : 20, Math.max(6, ...rows.map((row) => row.name.length)));
  const left = longest * 6.6 + 10, x = (value) => left + (value / top) * (width - left - 14), bottom = height - 38;
  showLegend(svg, [['theory', words.theory], ...(words.measured ? [['measured', words.measured]] : [])]);
  ticks(top, 5).forEach((value) => {
    draw('path', { d: `M${x(value)} 2V${bottom}`, stroke: RULE });
    draw('text', { x: x(value), y: bottom + 15, 'text-anchor': 'middle' }, `${digits(value)}\u00d7`);
  });
  rows.forEach((row, index) => {
    const y = 4 + index * LINE, name = row.name.length > longest ? `${row.name.slice(0, longest - 1)}\u2026` : row.name;
    draw('text', { x: left - 8, y: y + 13, 'text-anchor': 'end' }, name);
    draw('rect', { x: left, y: y + 2, width: Math.max(0, x(row.value) - left), height: LINE - 5, fill: THEORY });
    if (row.measured !== null) draw('path', { d: `M${x(row.measured)} ${y}v${LINE - 1}`, stroke: MEASURED, 'stroke-width': 4 });
  });
  draw('path', { d: `M${x(1)} 2V${bottom}`, stroke: INK, 'stroke-dasharray': '2 3' });
  draw('text', { x: width - 14, y: height - 6, 'text-anchor': 'end' }, 'turns, in multiples of a fair share (dotted: 1)');
}

/** Draw lines {points, color, thin}, points {x, y, half, color, shape, name}, and where the slider stands on the x axis. */
function drawCurve(svg, { lines, points, at, right, top, label, legends, marks }) {
  const height = 250, { width, draw } = canvas(svg, height), left = 46, bottom = height - 46;
  const x = (value) => left + 6 + (value / (right || 1)) * (width - left - 22), y = (value) => bottom - (value / top) * (bottom - 8);
  showLegend(svg, legends);
  ticks(top).forEach((value) => {
    draw('path', { d: `M${left} ${y(value)}H${width - 10}`, stroke: RULE });
    draw('text', { x: left - 7, y: y(value) + 4, 'text-anchor': 'end' }, `${digits(100 * value)}${SMALL_SPACE}%`);
  });
  let room = -Infinity;
  (marks || ticks(right, width < 400 ? 5 : 8, 1).map((value) => [value, whole(value)])).forEach(([value, text]) => {
    const label = text.length > 14 ? `${text.slice(0, 13)}\u2026` : text, half = 3.4 * label.length + 4;
    if (x(value) - half < room) return;
    room = x(value) + half;
    draw('text', { x: x(value), y: bottom + 17, 'text-anchor': 'middle' }, label);
  });
  lines.filter((line) => line.points.length).forEach((line) => draw('path', {
    d: `M${line.points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join('L')}`,
    fill: 'none', stroke: line.color, 'stroke-width': line.thin ? 1 : 2, 'stroke-linejoin': 'round',
  }));
  if (at) draw('path', { d: `M${x(at[0])} ${bottom}V${y(at[1])}`, stroke: 'var(--muted)', 'stroke-dasharray': '2 3' });
  points.forEach((point) => {
    const a = x(point.x), b = y(point.y);
    if (point.half) draw('path', { d: `M${a} ${y(Math.max(0, point.y - point.half))}V${y(point.y + point.half)}`, stroke: point.color, 'stroke-width': 1.5 });
    if (point.shape === 'diamond') draw('path', { d: `M${a - 6} ${b}l6 -6l6 6l-6 6z`, fill: point.color });
    else draw('circle', { cx: a, cy: b, r: point.small ? 3.5 : 7, fill: point.color });
  });
  draw('text', { x: width - 10, y: height - 8, 'text-anchor': 'end' }, label);
}
