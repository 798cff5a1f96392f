/* The playground: who takes part how often, for a population, a cohort, a separation and weights of one's choice.

   Theory is the closed form of docs/theory/README.md for clients that all wait R rounds between two participations.
   The leaders of R + 1 consecutive cohorts are a conditional Poisson sample of n = R + 1 clients. Its recurrences are used
   forwards from the empty sample where p / rho <= 1, and backwards from the full one beyond: sums of positive terms, no
   division by a small difference, and no step that enlarges an error. */

/** Return rho[k] = e_k / e_(k-1) for k = 1..N, e_k being the elementary symmetric polynomials of the N weights. */
function ratios(weights) {
  const rho = new Float64Array(weights.length + 1);
  weights.forEach((p, count) => {
    for (let k = count + 1; k > 1; k -= 1) rho[k] = (rho[k] + p) * (rho[k - 1] / (rho[k - 1] + p));
    rho[1] += p;
  });
  return rho;
}

/** Return the probability that a sample of n of the clients holds the one of weight p. */
function inclusion(p, n, rho) {
  const N = rho.length - 1;
  if (p <= rho[n]) {
    let held = 0;
    for (let k = 1; k <= n; k += 1) held = (p / rho[k]) * (1 - held);
    return held;
  }
  let missing = 0;
  for (let k = N; k > n; k -= 1) missing = (1 - missing) * (rho[k] / p);
  return 1 - missing;
}

/** Return each client's share of all participations in the long run: weights above 0 of N clients, separation R, cohort B. */
function participation(weights, R, B, rho = ratios(weights)) {
  const N = weights.length, n = R + 1;
  if (n * B >= N) return weights.map(() => 1 / N);
  const known = new Map();
  return weights.map((p) => {
    if (!known.has(p)) {
      const held = inclusion(p, n, rho);
      known.set(p, (held / n + (1 - held) * ((B - 1) / (N - n))) / B);
    }
    return known.get(p);
  });
}

/** Return the total variation distance from uniform, for R = 0, 1, ..., N / B - 1. */
function distances(weights, B, rho = ratios(weights)) {
  const N = weights.length, most = Math.floor(N / B), apart = new Float64Array(most + 1), times = new Map();
  weights.forEach((p) => times.set(p, (times.get(p) || 0) + 1));
  times.forEach((many, p) => {
    let held = 0, n = 1;
    for (; n <= most && p <= rho[n]; n += 1) {
      held = (p / rho[n]) * (1 - held);
      apart[n] += many * Math.abs(held - n / N);
    }
    let missing = 0;
    for (let k = N; k >= n; k -= 1) {
      if (k < N) missing = (1 - missing) * (rho[k + 1] / p);
      if (k <= most) apart[k] += many * Math.abs(1 - missing - k / N);
    }
  });
  return Array.from({ length: most }, (_, R) => {
    const n = R + 1, room = N - n * B;
    return room > 0 ? (apart[n] / 2) * (room / (n * (N - n) * B)) : 0;
  });
}

const SMALL_SPACE = '\u202f';

/** Write a share of one as a percentage. */
function percent(share) {
  if (share < 1e-12) return `0${SMALL_SPACE}%`;
  if (share === 1) return `100${SMALL_SPACE}%`;
  return share < 0.0005 ? `<${SMALL_SPACE}0.1${SMALL_SPACE}%` : `${(100 * share).toFixed(1)}${SMALL_SPACE}%`;
}

/** Write a number with three digits that count, its thousands separated. */
function digits(value) {
  if (value === 0) return '0';
  if (Math.abs(value) < 0.001 || Math.abs(value) >= 1e6) return value.toExponential(1).replace('-', '\u2212').replace('+', '');
  const [whole, part] = value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return part && Number(part) ? `${grouped}.${part.replace(/0+$/, '')}` : grouped;
}

/** Write a whole number, and with a noun. */
const whole = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ',');
const some = (value, noun) => `${whole(value)} ${noun}${value === 1 ? '' : 's'}`;

/** Make an element with a text and what it holds. */
function made(tag, text, ...held) {
  const element = Object.assign(document.createElement(tag), { textContent: text });
  element.append(...held);
  return element;
}

/** Show a text, once it is another one: what has aria-live is read aloud. */
function say(place, text) {
  const element = typeof place === 'string' ? byId(place) : said[place];
  if (element.textContent !== text) element.textContent = text;
}

/** Show rows of texts in the body of the table of a chart. */
function showRows(name, rows) {
  field(name).querySelector('tbody').replaceChildren(...rows.map((cells) => made('tr', '', ...cells.map((text, place) => (
    Object.assign(made('td', text), { className: place ? '' : 'word' }))))));
}

/** Return steps of 1, 2 or 5 times a power of ten from 0 to the top, at most so many. */
function ticks(top, most = 6, least = 0) {
  const rough = Math.max(top / most, least), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * (1 - 1e-9));
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(9)));
}

/** Empty a picture and return its size and what draws into it; it is as wide as its place, so that text keeps its size. */
function canvas(name) {
  const svg = byId(`playground-${name}-picture`), width = Math.max(260, Math.min(640, (svg.closest('figure').clientWidth || 480) - 30));
  const height = Math.max(270, Math.min(400, 0.8 * width));
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren(...svg.querySelectorAll('title, desc'));
  const draw = (tag, attributes, text) => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    if (text !== undefined) element.textContent = text;
    return svg.appendChild(element);
  };
  return { width, height, draw };
}

/** Draw a line of values, or bars, `write` being how, a limit, and points {x, words, color} on the line, which falls. */
function drawCurve(name, values, { words, along, write, limit, top, points = [], bars = false, first = 0 }) {
  const { width, height, draw } = canvas(name), left = 46, bottom = height - 46, last = values.length - 1;
  const y = (value) => bottom - (value / top) * (bottom - 30), x = (value) => left + 6 + (value / (last || 1)) * (width - left - 22);
  draw('text', { x: 4, y: 12 }, words);
  ticks(top).forEach((value) => {
    draw('path', { d: `M${left} ${y(value)}H${width - 10}`, stroke: 'var(--rule)' });
    draw('text', { x: left - 7, y: y(value) + 4, 'text-anchor': 'end' }, write(value));
  });
  ticks(last, width < 400 ? 5 : 8, 1).forEach((value) => draw('text', { x: x(value), y: bottom + 17, 'text-anchor': 'middle' }, whole(value + first)));
  const wide = 0.7 * (x(1) - x(0));
  if (bars) values.forEach((value, index) => draw('rect', { x: x(index) - wide / 2, y: y(value), width: wide, height: bottom - y(value), fill: 'var(--series-1)' }));
  const line = values.map((value, index) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join('L');
  if (!bars) draw('path', { d: `M${line}`, fill: 'none', stroke: 'var(--series-1)', 'stroke-width': 2 });
  if (limit <= top) draw('path', { d: `M${left} ${y(limit)}H${width - 10}`, stroke: 'var(--muted)', 'stroke-dasharray': '5 4' });
  points.forEach((point) => {
    const a = x(point.x), b = y(values[point.x]), beyond = a + 9 + 7.6 * point.words.length > width;
    draw('circle', { cx: a, cy: b, r: 6, fill: point.color });
    draw('text', { x: beyond ? a - 9 : a + 9, y: beyond ? Math.min(b + 20, bottom - 6) : b - 9, 'text-anchor': beyond ? 'end' : 'start', class: 'told' }, point.words);
  });
  draw('text', { x: width - 10, y: height - 8, 'text-anchor': 'end' }, along);
}

const byId = (id) => document.getElementById(id);
const said = document.querySelectorAll('.words dd'); // about bias, privacy, cost, trust, and what to do next
const start = JSON.parse(byId('playground-data').textContent);
const field = (name) => byId(`playground-${name}`);
const chosen = (name) => Number(field(name).value);

/** Return the weights of so many units by the law that is chosen, the heaviest first but for those of a file. */
function weightsOf(law, units) {
  const each = (weight) => Array.from({ length: units }, (_, index) => weight(index));
  if (law === 'zipf') return each((index) => (index + 1) ** -chosen('exponent'));
  if (law === 'two') return each((index) => (index < heavy(units) ? chosen('factor') : 1));
  return each(() => 1);
}

/** Return weights of which the largest is 1; none vanishes. */
function scaled(weights) {
  const largest = Math.max(...weights);
  return weights.map((p) => Math.max(p / largest, 1e-300));
}

/** Return how many of so many units are heavy in two groups. */
const heavy = (units) => Math.min(units - 1, Math.max(1, Math.round((chosen('share') / 100) * units)));

/** Read what is chosen, brought into its bounds. */
function read() {
  const law = field('law').value, groups = field('selection').value === 'groups';
  field('clients').disabled = law === 'file';
  const whole_number = (name, least, most) => Math.min(most, Math.max(least, Math.round(chosen(name)) || least));
  const clients = law === 'file' ? start.weights.length : whole_number('clients', 2, start.largest);
  const size = whole_number('cohort', 1, Math.floor(clients / 2));
  const units = groups ? Math.floor(clients / size) : clients;
  let weights;
  if (law === 'file') {
    weights = groups
      ? Array.from({ length: units }, (_, unit) => start.weights.slice(unit * size, (unit + 1) * size).reduce((a, b) => a + b, 0))
      : start.weights;
  } else weights = weightsOf(law, units);
  return { law, groups, clients: groups ? units * size : clients, size, units, weights: scaled(weights), cohort: groups ? 1 : size };
}

/** Write the scenario file, or the command, that would run this. */
function recipe({ law, groups, clients, size, units }, R) {
  if (law === 'file') {
    const sets = [`population.*.separation=${R}`];
    if (size !== start.cohort) sets.push(`server.cohort=${size}`, 'server.over_select=1');
    if (groups !== (start.selection === 'groups')) sets.push(`server.selection=${groups ? '{kind: groups}' : '{kind: midzuno}'}`);
    return `fedsim run ${start.file} ${sets.map((each) => `--set '${each}'`).join(' ')}`;
  }
  const per = groups && size > 1 ? `, per_rank: ${size}` : '';
  const entry = (devices, weight) => `  - {devices: ${devices}, ${weight}separation: ${R}}`, many = groups ? size : 1;
  const population = {
    zipf: () => [entry(clients, `weight: {kind: zipf, exponent: ${chosen('exponent')}${per}}, `)],
    two: () => [entry(heavy(units) * many, `weight: ${chosen('factor')}, `), entry((units - heavy(units)) * many, '')],
    equal: () => [entry(clients, '')],
  }[law]();
  return [`stop: {rounds: ${start.rounds}}`, 'population:', ...population, `server: {cohort: ${size}${groups ? ', selection: {kind: groups}' : ''}}`].join('\n');
}

/** Say how uneven it is at this R, and which R is enough. */
function sentences(R, away) {
  const target = chosen('target') / 100, last = away.length - 1;
  const enough = away.findIndex((each) => each <= target + 1e-12), limit = `${digits(100 * target)}${SMALL_SPACE}%`;
  const found = away[R] < 1e-12
    ? `With R = ${whole(R)}, all take part equally often.`
    : `With R = ${whole(R)}, participation is ${percent(away[R])} from uniform; ${enough >= 0 ? `R = ${whole(enough)} is the smallest` : 'no R comes'} within ${limit}.`;
  const advice = enough >= 0
    ? `${enough === R ? 'Run what is below' : `Move R to ${whole(enough)}, then run what is below`}: R = ${whole(enough)} is the smallest that comes within ${limit} of uniform.`
    : `No R comes within ${limit} of uniform: R = ${whole(last)}, the largest, leaves ${percent(away[last])}.`;
  return { found, advice, enough };
}

let kept = { key: '' };

function draw() {
  const asked = read(), { weights, cohort, units } = asked, key = JSON.stringify([weights, cohort]);
  if (kept.key !== key) {
    const rho = ratios(weights);
    kept = { key, rho, away: distances(weights, cohort, rho) };
  }
  const { rho, away } = kept, last = away.length - 1, slider = field('separation'), one = asked.groups ? 'group' : 'client';
  slider.max = last;
  const R = Math.min(last, chosen('separation'));
  const pi = participation(weights, R, cohort, rho), { found, advice, enough } = sentences(R, away);
  ['exponent', 'share', 'factor'].forEach((name) => {
    byId(`playground-${name}-line`).hidden = !{ zipf: ['exponent'], two: ['share', 'factor'] }[asked.law]?.includes(name);
    say(`playground-${name}-now`, { share: `${chosen(name)}${SMALL_SPACE}%`, factor: `${chosen(name)}\u00d7` }[name] || `${chosen(name)}`);
  });
  say('playground-separation-now', `${some(R, 'round')}, of at most ${whole(last)}`);
  slider.setAttribute('aria-valuetext', `R = ${whole(R)}`);
  say('playground-target-now', `${chosen('target')}${SMALL_SPACE}%`);
  field('target').setAttribute('aria-valuetext', byId('playground-target-now').textContent);
  const bound = asked.groups && asked.clients !== chosen('clients') && asked.law !== 'file' ? `Whole groups of ${asked.size}: ${whole(asked.clients)} clients.` : '';
  say('playground-bound', chosen('cohort') === asked.size ? bound : `A cohort of ${whole(asked.size)} is taken: from 1 to half of the clients.`);
  const ready = (waited) => whole(asked.clients - waited * asked.size), [least, most] = [Math.min, Math.max].map((end) => digits(end(...pi) * units));
  say('answer-head', found);
  say(0, `${percent(away[R])} from uniform (TV): a ${one} takes part ${least === most ? most : `${least} to ${most}`} times its fair share.`);
  say(2, `Waiting leaves ${ready(R)} of ${whole(asked.clients)} clients ready in a round${enough >= 0 && enough !== R ? `; R = ${whole(enough)} leaves ${ready(enough)}` : ''}. A round takes ${whole(asked.size)}.`);
  say(4, advice);
  const most_times = Math.ceil(start.rounds / (R + 1)), noise = percent(Math.sqrt(most_times / start.rounds));
  say(1, `In ${some(start.rounds, 'round')} a client takes part at most ${some(most_times, 'time')}: with noise drawn anew in each round, the same epsilon takes ${noise} of the noise that R = 0 needs (no amplification by sampling is counted).`);
  const shares = (turns) => Array.from(turns, (share) => share * units).sort((a, b) => b - a), now = shares(pi);
  drawCurve('shares', now, { words: 'participation share; dashed: a fair one', along: `${one}s, most frequent first`, write: digits, limit: 1, top: 1.05 * Math.max(1.5, ...now), bars: units <= 40, first: 1 });
  const thinned = (values, keep) => values.flatMap((value, index) => (keep.includes(index) || index % Math.ceil(values.length / 60) === 0 ? [[whole(index), value]] : []));
  showRows('shares', thinned(now.map(digits), []));
  drawCurve('curve', away, {
    words: 'distance (TV); dashed: the limit',
    along: 'separation R (rounds)',
    write: (value) => `${digits(100 * value)}${SMALL_SPACE}%`,
    limit: chosen('target') / 100,
    top: 1.08 * Math.max(0.001, away[0]),
    points: [
      ...(enough >= 0 && enough !== R ? [{ x: enough, words: `R = ${whole(enough)} is enough`, color: 'var(--series-3)' }] : []),
      { x: R, words: `R = ${whole(R)}: ${percent(away[R])}`, color: 'var(--series-2)' },
    ],
  });
  showRows('curve', thinned(away.map(percent), [R, enough]));
  say('playground-recipe', recipe(asked, R));
  say('playground-how', asked.law === 'file' ? 'With the scenario file:' : 'Save this as my.fedsim.yaml, and run it with: fedsim run my.fedsim.yaml');
  const move = byId('playground-move');
  [move.hidden, move.value] = [enough < 0 || enough === R, enough];
  say('playground-move', `Move R to ${whole(enough)}`);
}

document.querySelectorAll('[data-scripted]').forEach((each) => { each.hidden = false; });
document.addEventListener('input', draw);
byId('playground-move').addEventListener('click', ({ target }) => { field('separation').value = target.value; draw(); });
draw();
addEventListener('resize', draw);
