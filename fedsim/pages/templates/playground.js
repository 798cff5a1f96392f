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

/** Return the coefficients of the Toeplitz matrix C of a mechanism: 1, 0, 0, ... or those of the square root of the prefix sums. */
function coefficientsOf(mechanism, rounds) {
  const found = new Float64Array(rounds);
  found[0] = 1;
  if (mechanism === 'sqrt') for (let j = 1; j < rounds; j += 1) found[j] = found[j - 1] * (1 - 0.5 / j);
  return found;
}

/** Return the sensitivity of C where a client takes part every b rounds from the first on, the worst it can do as C decreases. */
function sensitivity(coefficients, b) {
  const response = new Float64Array(coefficients.length);
  let squares = 0;
  for (let t = 0; t < response.length; t += 1) {
    response[t] = coefficients[t] + (t < b ? 0 : response[t - b]);
    squares += response[t] * response[t];
  }
  return Math.sqrt(squares);
}

/** Return the root mean square, over the rounds, of the norms of the rows of A C^-1, where A takes prefix sums. */
function rowNorm(mechanism, coefficients) {
  const rounds = coefficients.length;
  if (mechanism === 'independent') return Math.sqrt((rounds + 1) / 2);
  let row = 0, sum = 0; // C is the square root of A, so that A C^-1 is C
  for (let t = 0; t < rounds; t += 1) {
    row += coefficients[t] * coefficients[t];
    sum += row;
  }
  return Math.sqrt(sum / rounds);
}

/** Return for each separation from 0 to the last: b, k, the sensitivity, and the noise of the sum for a multiplier of 1. */
function ledger(mechanism, rounds, last) {
  const coefficients = coefficientsOf(mechanism, rounds), norm = rowNorm(mechanism, coefficients);
  return Array.from({ length: last + 1 }, (_, separation) => {
    const b = separation + 1, found = sensitivity(coefficients, b);
    return { b, k: Math.ceil(rounds / b), sensitivity: found, noise: found * norm };
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
function say(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

/** Show key figures: value, label, detail. */
function showTiles(id, tiles) {
  byId(id).replaceChildren(...tiles.map(([value, label, detail]) => (
    made('div', '', made('dt', label), made('dd', '', made('b', value), ...(detail ? [made('span', detail)] : []))))));
}

/** Show rows of texts in the body of the table of a chart. */
function showRows(name, rows) {
  byId(`playground-${name}-data`).tBodies[0].replaceChildren(...rows.map((cells) => made('tr', '', ...cells.map((text, place) => (
    Object.assign(made('td', text), { className: place ? '' : 'word' }))))));
}

/** Return steps of 1, 2 or 5 times a power of ten from 0 to the top, at most so many. */
function ticks(top, most = 6, least = 0) {
  const rough = Math.max(top / most, least), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * (1 - 1e-9));
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(9)));
}

/** Empty a picture and return its width and what draws into it; it is as wide as its place, so that text keeps its size. */
function canvas(name, height) {
  const svg = byId(`playground-${name}-picture`), width = Math.max(260, Math.min(640, svg.closest('figure').clientWidth || 480));
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren(...svg.querySelectorAll('title, desc'));
  const draw = (tag, attributes, text) => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    if (text !== undefined) element.textContent = text;
    return svg.appendChild(element);
  };
  return { width, draw };
}

/** Draw a bar for each [name, value], in multiples of a fair share; `top` is the end of the axis. */
function drawBars(name, rows, top) {
  const line = 20, { width, draw } = canvas(name, rows.length * line + 46), bottom = rows.length * line + 8, left = 98;
  const x = (value) => left + (value / top) * (width - left - 14);
  ticks(top, 5).forEach((value) => {
    draw('path', { d: `M${x(value)} 2V${bottom}`, stroke: 'var(--rule)' });
    draw('text', { x: x(value), y: bottom + 15, 'text-anchor': 'middle' }, digits(value));
  });
  rows.forEach(([text, value], index) => {
    const y = 4 + index * line;
    draw('text', { x: left - 8, y: y + 13, 'text-anchor': 'end' }, text);
    draw('rect', { x: left, y: y + 2, width: Math.max(0, x(value) - left), height: line - 5, fill: 'var(--series-1)' });
  });
  draw('path', { d: `M${x(1)} 2V${bottom}`, stroke: 'var(--ink)', 'stroke-dasharray': '2 3' });
  draw('text', { x: width - 14, y: bottom + 32, 'text-anchor': 'end' }, 'participation share (dotted: a fair one, 1)');
}

/** Draw values over R, a limit, and points {x, words, color} on the line. */
function drawCurve(name, values, points, words, limit) {
  const height = 270, { width, draw } = canvas(name, height), left = 46, bottom = height - 46, last = values.length - 1;
  const top = 1.08 * Math.max(0.001, values[0]), y = (value) => bottom - (value / top) * (bottom - 30);
  const x = (value) => left + 6 + (value / (last || 1)) * (width - left - 22);
  draw('text', { x: 4, y: 12 }, words);
  ticks(top).forEach((value) => {
    draw('path', { d: `M${left} ${y(value)}H${width - 10}`, stroke: 'var(--rule)' });
    draw('text', { x: left - 7, y: y(value) + 4, 'text-anchor': 'end' }, `${digits(100 * value)}${SMALL_SPACE}%`);
  });
  ticks(last, width < 400 ? 5 : 8, 1).forEach((value) => draw('text', { x: x(value), y: bottom + 17, 'text-anchor': 'middle' }, whole(value)));
  draw('path', { d: `M${values.map((value, R) => `${x(R).toFixed(1)} ${y(value).toFixed(1)}`).join('L')}`, fill: 'none', stroke: 'var(--series-1)', 'stroke-width': 2 });
  if (limit <= top) draw('path', { d: `M${left} ${y(limit)}H${width - 10}`, stroke: 'var(--muted)', 'stroke-dasharray': '5 4' });
  points.forEach((point) => {
    const a = x(point.x), b = y(values[point.x]), beyond = a + 9 + 7.6 * point.words.length > width;
    draw('circle', { cx: a, cy: b, r: 6, fill: point.color });
    draw('text', { x: beyond ? width - 4 : a + 9, y: b - 9, 'text-anchor': beyond ? 'end' : 'start', class: 'told' }, point.words);
  });
  draw('text', { x: width - 10, y: height - 8, 'text-anchor': 'end' }, 'separation R (rounds)');
}

const byId = (id) => document.getElementById(id);
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

/** Put the units into bars {name, of}: two groups, each for itself, or tenths, the heaviest first. */
function barsOf({ law, groups, units, weights }) {
  const one = groups ? 'group' : 'client', order = weights.map((_, unit) => unit).sort((a, b) => weights[b] - weights[a] || a - b);
  if (law === 'two') {
    const first = heavy(units);
    return [{ name: `heavy ${one}s`, of: order.slice(0, first) }, { name: `light ${one}s`, of: order.slice(first) }];
  }
  if (units <= 24) return order.map((unit) => ({ name: groups ? `group ${unit + 1}` : `client ${unit}`, of: [unit] }));
  return ['heaviest', '2nd', '3rd', '4th', '5th', '6th', '7th', '8th', '9th', 'lightest'].map((which, tenth) => (
    { name: `${which} tenth`, of: order.filter((_, place) => Math.floor((place * 10) / units) === tenth) }));
}

/** Write the scenario file, or the command, that would run this. */
function recipe({ law, groups, clients, size, units }, R, { rounds, privacy }) {
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
  return [`stop: {rounds: ${rounds}}`, 'population:', ...population, `server: {cohort: ${size}${groups ? ', selection: {kind: groups}' : ''}}`, privacy].join('\n');
}

/** Say how uneven it is at this R, and which R is enough. */
function sentences(R, away) {
  const target = chosen('target') / 100, last = away.length - 1;
  const enough = away.findIndex((each) => each <= target + 1e-12), limit = `${digits(100 * target)}${SMALL_SPACE}%`;
  const found = away[R] < 1e-12
    ? `With R = ${whole(R)}, all take part equally often.`
    : `With R = ${whole(R)}, participation is ${percent(away[R])} from uniform; ${enough >= 0 ? `R = ${whole(enough)} is the smallest` : 'no R comes'} within ${limit}.`;
  const advice = enough >= 0
    ? `R = ${whole(enough)} is the smallest that comes within ${limit} of uniform.`
    : `No R comes within ${limit} of uniform: R = ${whole(last)}, the largest, leaves ${percent(away[last])}.`;
  return { found, advice, enough };
}

let kept = { key: '' }, booked = { key: '' };

/** Show what a separation is worth to privacy: what it promises, and the noise for the epsilon that is chosen. */
function drawPrivacy(R, last) {
  const { epsilons, deltas, noise, most_rounds: most } = start.privacy, mechanism = field('mechanism').value;
  const rounds = Math.min(most, Math.max(1, Math.round(chosen('rounds')) || 1)), key = JSON.stringify([mechanism, rounds, last]);
  if (booked.key !== key) booked = { key, rows: ledger(mechanism, rounds, last) };
  const { rows } = booked, row = rows[R], epsilon = epsilons[chosen('epsilon')], delta = deltas[chosen('delta')];
  const multiplier = noise[chosen('delta')][chosen('epsilon')], relative = rows.map((each) => each.noise / rows[0].noise);
  say('playground-epsilon-now', digits(epsilon));
  field('epsilon').setAttribute('aria-valuetext', `epsilon ${digits(epsilon)}`);
  const apart = row.k === 1 ? '' : `, at least b = ${some(row.b, 'round')} apart`;
  say('playground-private', `With R = ${whole(R)}, a client takes part at most k = ${some(row.k, 'time')} in ${some(rounds, 'round')}${apart}. `
    + `Epsilon ${digits(epsilon)} at delta ${delta} then takes noise of ${digits(multiplier * row.noise)} clip norms in the sum of all updates`
    + `${R === 0 ? '' : `, ${percent(relative[R])} of what R = 0 takes`}.`);
  drawCurve('noise', relative, [{ x: R, words: `R = ${whole(R)}`, color: 'var(--series-2)' }], 'noise for this epsilon, compared with R = 0');
  const every = Math.ceil(rows.length / 60);
  showRows('noise', rows.flatMap((each, place) => (
    place % every && place !== R ? [] : [[whole(place), whole(each.b), whole(each.k), digits(each.sensitivity), digits(multiplier * each.noise)]])));
  return { rounds, privacy: `privacy: {mechanism: ${mechanism}, epsilon: ${epsilon}, delta: ${delta}, clip: 1}` };
}

function draw() {
  const asked = read(), { weights, cohort, units } = asked, key = JSON.stringify([weights, cohort]);
  if (kept.key !== key) {
    const rho = ratios(weights);
    kept = { key, rho, away: distances(weights, cohort, rho) };
  }
  const { rho, away } = kept, last = away.length - 1, slider = field('separation'), one = asked.groups ? 'group' : 'client';
  slider.max = last;
  const R = Math.min(last, chosen('separation')), bars = barsOf(asked);
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
  say('playground-said-1', `${percent(away[R])} from uniform (TV): a ${one} takes part ${least === most ? most : `${least} to ${most}`} times its fair share.`);
  say('playground-said-3', `Waiting leaves ${ready(R)} of ${whole(asked.clients)} clients ready in a round${enough >= 0 && enough !== R ? `; R = ${whole(enough)} leaves ${ready(enough)}` : ''}.`);
  say('playground-advice', advice);
  showTiles('playground-tiles', [
    [percent(away[R]), 'from uniform (TV)', 'theory; not run'],
    [enough >= 0 ? `R = ${whole(enough)}` : 'none', 'smallest for the limit', `of ${byId('playground-target-now').textContent}`],
    [most, 'largest participation share', `of one ${one}`],
    [least, 'smallest participation share', `of one ${one}`],
    [ready(R), 'clients ready in a round', `of ${whole(asked.clients)}`],
  ]);
  const mean = (of, turns) => (of.reduce((sum, unit) => sum + turns[unit], 0) * units) / of.length, at0 = participation(weights, 0, cohort, rho);
  drawBars('bars', bars.map((bar) => [bar.name, mean(bar.of, pi)]), 1.02 * Math.max(1.05, ...bars.map((bar) => mean(bar.of, at0))));
  showRows('bars', bars.map((bar) => [bar.name, digits(mean(bar.of, pi))]));
  drawCurve('curve', away, [
    ...(enough >= 0 && enough !== R ? [{ x: enough, words: `R = ${whole(enough)} is enough`, color: 'var(--series-3)' }] : []),
    { x: R, words: `R = ${whole(R)}: ${percent(away[R])}`, color: 'var(--series-2)' },
  ], 'distance from uniform (TV); dashed: the limit', chosen('target') / 100);
  const every = Math.ceil(away.length / 60);
  showRows('curve', away.map((share, each) => [whole(each), percent(share)]).filter((_, each) => each % every === 0 || each === R || each === enough));
  say('playground-recipe', recipe(asked, R, drawPrivacy(R, last)));
  say('playground-how', asked.law === 'file' ? 'With the scenario file:' : 'Save this as my.fedsim.yaml, and run it with: fedsim run my.fedsim.yaml');
}

document.querySelectorAll('[data-scripted]').forEach((each) => { each.hidden = false; });
document.addEventListener('input', draw);
draw();
addEventListener('resize', draw);
