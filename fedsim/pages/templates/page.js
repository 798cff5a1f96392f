/* Sorts tables, shows the values of charts, and gives charts as files; without it all values stand in tables. */

const SVG = document.querySelector('svg')?.namespaceURI;
const set = (element, values) => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
const add = (parent, tag, textContent, more) => parent.appendChild(Object.assign(document.createElement(tag), { textContent, ...more }));
const cells = (row) => [...row.children].map((cell) => cell.textContent.trim());
const rowsOf = (table) => [...table.tBodies[0].rows];

/* Tables: a click on a head sorts by its column. */
for (const head of document.querySelectorAll('.sortable th')) {
  const button = document.createElement('button');
  button.append(...head.childNodes);
  head.append(button);
  button.onclick = () => {
    const column = [...head.parentNode.children].indexOf(head), body = head.closest('table').tBodies[0];
    const up = head.getAttribute('aria-sort') !== 'ascending', text = (row) => row.children[column].textContent;
    const value = (row) => parseFloat(text(row).replaceAll(',', '').replace('\u2212', '-'));
    const unit = (row) => text(row).split(' \u00b1')[0].replace(/[\d.,\u2212]/g, '').trim(), rows = [...body.rows];
    const plain = rows.every((row) => value(row) === value(row) && unit(row) === unit(rows[0]));
    rows.sort((a, b) => (plain ? value(a) - value(b) : text(a).localeCompare(text(b))) * (up ? 1 : -1));
    for (const each of head.parentNode.children) each.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    body.append(...rows);
  };
}

/* Charts: the values at the row of the data that is nearest to the pointer, or that the arrow keys choose. */
for (const svg of document.querySelectorAll('svg[data-places]')) {
  const figure = svg.closest('figure'), table = figure.querySelector('table');
  const [along, ...places] = svg.dataset.places.split(' ').map((each, index) => (index ? parseFloat(each) : each));
  const across = along === 'x' ? 'y' : 'x', size = svg.viewBox.baseVal, line = document.createElementNS(SVG, 'line');
  const tip = add(figure, 'div', '', { className: 'tip', hidden: true, role: 'status' });
  let shown = -1;
  const show = (row) => {
    shown = row;
    tip.hidden = row < 0;
    if (row < 0) return line.remove();
    const values = cells(rowsOf(table)[row]), pairs = cells(table.tHead.rows[0]).map((name, column) => [name, values[column]]);
    tip.innerText = pairs.filter(([, value]) => value && value !== '\u2013').map((pair) => pair.join(': ')).join('\n');
    const ends = { [`${across}1`]: 0, [`${across}2`]: along === 'x' ? size.height : size.width };
    set(line, { class: 'guide', [`${along}1`]: places[row], [`${along}2`]: places[row], ...ends });
    svg.append(line);
    const box = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    const at = (places[row] / (along === 'x' ? size.width : size.height)) * (along === 'x' ? box.width : box.height);
    const left = box.left - outer.left + (along === 'x' ? at + 12 : 0.45 * box.width);
    const room = outer.width - tip.offsetWidth - 4, before = left - tip.offsetWidth - 24;
    tip.style.left = `${left > room && along === 'x' && before > 0 ? before : Math.max(0, Math.min(left, room))}px`;
    tip.style.top = `${box.top - outer.top + (along === 'y' ? at + 12 : 0)}px`;
  };
  const nearest = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const away = places.map((each) => Math.abs(each - point[along]));
    show(away.indexOf(Math.min(...away)));
  };
  svg.tabIndex = 0;
  svg.onpointermove = svg.onpointerdown = nearest;
  svg.onpointerleave = (event) => { if (event.pointerType === 'mouse') show(-1); };
  svg.onblur = () => show(-1);
  svg.onkeydown = (event) => {
    const last = places.length - 1, back = (along === 'x') === (places[0] < places[last]) ? -1 : 1;
    const aside = { ArrowLeft: shown + back, ArrowRight: shown - back, ArrowUp: shown - 1, ArrowDown: shown + 1 };
    const to = { ...aside, Home: 0, End: last }[event.key];
    if (event.key === 'Escape') show(-1);
    if (to === undefined) return;
    event.preventDefault();
    show(Math.max(0, Math.min(last, shown < 0 && event.key !== 'End' ? 0 : to)));
  };
}

/* Files of a chart: its data, as a spreadsheet reads them, in which no text is a formula, and its picture as shown. */
const PAINT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'opacity', 'fill-opacity',
  'stroke-opacity', 'font-size', 'font-weight', 'font-family', 'text-anchor'];
const plain = (cell) => {
  const number = cell.replace('\u2212', '-').replace(/(\d),(?=\d{3})/g, '$1').replaceAll('\u202f', ' ');
  const safe = /^[=+@\t]|^-(?![\d.])/.test(number) ? `'${number}` : number;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
const csv = (table) => [table.tHead.rows[0], ...rowsOf(table)].map((row) => cells(row).map(plain).join(',') + '\n').join('');
const picture = (svg) => {
  const copy = svg.cloneNode(true), box = svg.viewBox.baseVal, paper = document.createElementNS(SVG, 'rect');
  const originals = [svg, ...svg.querySelectorAll('*')], copies = [copy, ...copy.querySelectorAll('*')];
  copies.forEach((each, index) => {
    const style = getComputedStyle(originals[index]);
    if (each.tagName !== 'title') for (const name of PAINT) each.setAttribute(name, style.getPropertyValue(name));
    each.removeAttribute('data-s');
  });
  copy.querySelector('.guide')?.remove();
  set(copy, { width: 3 * box.width, height: 3 * box.height });
  set(paper, { width: '100%', height: '100%', fill: getComputedStyle(svg.closest('figure')).backgroundColor });
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
};
const bitmap = async (svg) => {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(picture(svg))}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext('2d').drawImage(image, 0, 0);
  return canvas.convertToBlob();
};
const save = (blob, name) => {
  const link = Object.assign(document.createElement('a'), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
for (const figure of document.querySelectorAll('figure.card')) {
  const svg = figure.querySelector('svg'), table = figure.querySelector('table');
  const ways = { SVG: () => new Blob([picture(svg)], { type: 'image/svg+xml' }), PNG: () => bitmap(svg) };
  if (table) ways.CSV = () => new Blob([csv(table)], { type: 'text/csv' });
  const files = add(figure, 'p', '', { className: 'files' });
  for (const [form, make] of Object.entries(ways)) {
    const button = add(files, 'button', form);
    button.setAttribute('aria-label', `${form} of \u201c${figure.querySelector('h3').textContent}\u201d`);
    button.onclick = async () => save(await make(), `${figure.id}.${form.toLowerCase()}`);
  }
}

/* Tables that are cut say how many of their columns are out of sight. */
const hint = (scroll) => {
  const { right } = scroll.getBoundingClientRect(), heads = [...scroll.querySelectorAll('th')];
  const cut = scroll.scrollWidth > scroll.clientWidth + 1 ? heads.filter((head) => head.getBoundingClientRect().right > right + 2).length : 0;
  scroll.dataset.more = cut ? `${cut} more column${cut === 1 ? '' : 's'} \u2192` : '';
};

/* Cards of a grid: each below the shortest column, taller if little room is left; the last in the order that leaves least. */
const orders = (items) => (items.length < 2 ? [items] : items.flatMap((each, at) => orders(items.toSpliced(at, 1)).map((rest) => [each, ...rest])));
const stack = (cards, columns, gap) => {
  const ends = Array(columns).fill(1), lasts = [], placed = new Map();
  let empty = 0;
  const fill = (column, to) => {
    const room = to - ends[column], last = lasts[column];
    empty += room ** 2;
    if (!(room < 0.4 * last?.height) || lasts.filter((each) => each === last).length < last.span) return;
    last.height += room;
    ends.fill(to, last.at, last.at + last.span);
  };
  for (const { card, span, height } of cards) {
    const tops = Array.from({ length: columns - span + 1 }, (_, at) => Math.max(...ends.slice(at, at + span)));
    const top = Math.min(...tops), at = tops.indexOf(top), made = { at, span, top, height };
    for (let column = at; column < at + span; column += 1) {
      fill(column, top);
      [ends[column], lasts[column]] = [top + height + gap, made];
    }
    placed.set(card, made);
  }
  ends.forEach((_, column) => fill(column, Math.max(...ends)));
  return { placed, empty };
};
const pack = (grid) => {
  const cards = [...grid.querySelectorAll('.card')].filter((card) => card.parentNode.closest('.grid') === grid && card.checkVisibility());
  grid.classList.remove('packed');
  for (const card of cards) Object.assign(card.style, { gridColumn: '', gridRow: '', minHeight: '' });
  const columns = getComputedStyle(grid).gridTemplateColumns.split(' ').length, gap = Math.ceil(parseFloat(getComputedStyle(grid).columnGap));
  if (columns < 2 || !cards.length) return 0;
  grid.classList.add('packed');
  const asked = cards.map((card) => getComputedStyle(card).gridColumn);
  const fits = (card) => [...card.querySelectorAll(':scope > .scroll')].every((each) => each.scrollWidth <= each.clientWidth + 1);
  const ways = [columns - 1, 1].flatMap((words) => [columns, columns - 1].flatMap((tables) => {
    const all = cards.map((card, index) => ({ card, span: /-1/.test(asked[index]) ? tables : /span/.test(asked[index]) ? words : 1 }));
    const spread = () => all.forEach(({ card, span }) => { card.style.gridColumn = `span ${span}`; });
    spread();
    for (const each of all) if (!fits(each.card)) each.span = Math.min(columns, each.span + 1);
    spread();
    for (const each of all) each.height = Math.ceil(each.card.offsetHeight);
    const wide = all.findIndex(({ span, card }) => span > 1 && !card.matches('.words')), upto = wide < 0 ? all.length : wide;
    const from = Math.max(Math.min(2, upto), upto - 4, 1 + all.slice(0, upto).findLastIndex(({ span }) => span > 1));
    return orders(all.slice(from, upto)).map((some) => stack([...all.slice(0, from), ...some, ...all.slice(upto)], columns, gap));
  }));
  const best = ways.reduce((one, other) => (other.empty < 0.8 * one.empty ? other : one));
  best.placed.forEach(({ at, span, top, height }, card) => {
    Object.assign(card.style, { gridColumn: `${at + 1} / span ${span}`, gridRow: `${top} / span ${height}`, minHeight: `${height}px` });
  });
  return best.empty;
};
const tables = document.querySelectorAll('.card > .scroll'), grids = document.querySelectorAll('.grid');
const packAll = () => [pack, hint, pack].forEach((each) => (each === hint ? tables : grids).forEach((one) => each(one)));

/* Of what is folded away, in its order, that is shown which fills room that cards leave. */
const more = document.querySelector('.more');
const folded = [...(more?.querySelectorAll('.card') ?? [])].map((card) => ({ card, home: card.parentNode }));
const unfold = () => {
  folded.forEach(({ card, home }) => home.append(card));
  const rest = folded.filter(({ card, home }) => {
    const last = [...grids[0].querySelectorAll('.card:not(.wide, .words)')].at(-1), empty = pack(grids[0]);
    last?.after(card);
    if (last && pack(grids[0]) < 0.7 * empty) return false;
    home.append(card);
    return true;
  });
  more?.toggleAttribute('hidden', !rest.length);
  more?.querySelector('span').replaceChildren(rest.map(({ card }) => card.querySelector('h3, caption').textContent).join(' \u00b7 '));
  packAll();
};
tables.forEach((scroll) => { scroll.onscroll = () => hint(scroll); });
unfold();
addEventListener('resize', unfold);
document.addEventListener('toggle', ({target}) => {
  packAll();
  target.querySelector(':target')?.scrollIntoView();
}, true);
