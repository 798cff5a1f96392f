/* The playground: who would take part how often, for a population, a cohort, a separation and weights of one's choice. */

const start = JSON.parse(byId('playground-data').textContent);
const field = (name) => byId(`playground-${name}`);
const chosen = (name) => Number(field(name).value);

/** Return the value below which a standard normal variable lies with probability p (P. J. Acklam's approximation, to 1e-9). */
function normalQuantile(p) {
  const over = (top, bottom, x) => top.reduce((sum, a) => sum * x + a, 0) / bottom.reduce((sum, a) => sum * x + a, 0);
  const tail = (q) => over(
    [-7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783],
    [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1], Math.sqrt(-2 * Math.log(q)));
  if (p < 0.02425) return tail(p);
  if (p > 1 - 0.02425) return -tail(1 - p);
  const q = p - 0.5;
  return q * over(
    [-3.969683028665376e1, 2.209460984245205e2, -2.759285104469687e2, 1.38357751867269e2, -3.066479806614716e1, 2.506628277459239],
    [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1, 1], q * q);
}

/** Return the weights of so many units by the law that is chosen, the heaviest first but for those of a file. */
function weightsOf(law, units) {
  const each = (weight) => Array.from({ length: units }, (_, index) => weight(index));
  if (law === 'zipf') return each((index) => (index + 1) ** -chosen('exponent'));
  if (law === 'lognormal') return each((index) => Math.exp(chosen('sigma') * normalQuantile(1 - (index + 0.5) / units)));
  if (law === 'two') return each((index) => (index < heavy(units) ? chosen('factor') : 1));
  return each(() => 1);
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
  return { law, groups, clients: groups ? units * size : clients, size, units, weights: raised(weights, 1), cohort: groups ? 1 : size };
}

/** Put the units into bars: two groups, each for itself, or tenths, the heaviest first. */
function barsOf({ law, groups, units, weights }) {
  const one = groups ? 'group' : 'client', order = weights.map((_, unit) => unit).sort((a, b) => weights[b] - weights[a] || a - b);
  if (law === 'two') {
    const first = heavy(units), kinds = (kind) => ({ name: `${kind} ${one}s`, named: `a ${kind} ${one}` });
    return { bars: [{ ...kinds('heavy'), of: order.slice(0, first) }, { ...kinds('light'), of: order.slice(first) }], between: `heavy and light ${one}s` };
  }
  const name = (unit) => (groups ? `group ${unit + 1}` : `client ${unit}`);
  if (units <= 24) return { bars: order.map((unit) => ({ name: name(unit), named: name(unit), of: [unit] })), between: `${one}s` };
  const ordinal = ['heaviest', '2nd', '3rd', '4th', '5th', '6th', '7th', '8th', '9th', 'lightest'];
  const bars = ordinal.map((which, tenth) => ({
    name: `${which} tenth`, named: `the ${which} tenth of the ${one}s`, of: order.filter((_, place) => Math.floor((place * 10) / units) === tenth),
  }));
  return { bars, between: `tenths of the ${one}s` };
}

/** Write the scenario file, or the command, that would run this. */
function recipe({ law, groups, clients, size, units }, R, { rounds, privacy }) {
  if (law === 'file') {
    const sets = [`population.*.separation=${R}`];
    if (size !== start.cohort) sets.push(`server.cohort=${size}`, 'server.over_select=1');
    if (groups !== (start.selection === 'groups')) sets.push(`server.selection=${groups ? '{kind: groups}' : '{kind: midzuno}'}`);
    return `fedsim run ${start.file} ${sets.map((each) => `--set '${each}'`).join(' ')}`;
  }
  const per = groups && size > 1 ? `, per_rank: ${size}` : '', of = (kind, value) => `weight: {kind: ${kind}, ${value}}, `;
  const entry = (devices, weight) => `  - {devices: ${devices}, ${weight}separation: ${R}}`, many = groups ? size : 1;
  const population = {
    zipf: () => [entry(clients, of('zipf', `exponent: ${chosen('exponent')}${per}`))],
    lognormal: () => [entry(clients, of('lognormal', `sigma: ${chosen('sigma')}`))],
    two: () => [entry(heavy(units) * many, `weight: ${chosen('factor')}, `), entry((units - heavy(units)) * many, '')],
    equal: () => [entry(clients, '')],
  }[law]();
  return [`stop: {rounds: ${rounds}}`, 'population:', ...population, `server: {cohort: ${size}${groups ? ', selection: {kind: groups}' : ''}}`, privacy].join('\n');
}

/** Return the sentence that is read aloud: what is misplaced at this R, and which R would do. */
function sentence(R, misplaced, shares, bars, between) {
  const { most, least, ratio } = contrast(shares), target = chosen('target') / 100, share = misplaced[R];
  const found = `At R = ${whole(R)}, ${percent(share)} of turns are misplaced.`;
  let turns = `${capital(bars[most].named)} takes part ${times(ratio)} times as often as ${bars[least].named}.`;
  if (share < 1e-12) turns = 'All take part equally often.';
  else if (ratio < 1.005) turns = `Between ${between} there is hardly a difference.`;
  const enough = misplaced.findIndex((each) => each <= target + 1e-12), last = misplaced.length - 1;
  const advice = enough >= 0
    ? `The smallest R that leaves at most ${digits(100 * target)}${SMALL_SPACE}% misplaced is R = ${whole(enough)}.`
    : `No R leaves as little as ${digits(100 * target)}${SMALL_SPACE}% misplaced: at R = ${whole(last)}, the largest, it is ${percent(misplaced[last])}.`;
  return { text: `${found} ${turns} ${advice}`, enough };
}

let kept = { key: '' }, booked = { key: '' };

/** Show what a separation is worth to privacy: what it promises, and the noise for the epsilon that is chosen. */
function drawPrivacy(R, last) {
  const { epsilons, deltas, noise, most_rounds: most } = start.privacy, mechanism = field('mechanism').value;
  const rounds = Math.min(most, Math.max(1, Math.round(chosen('rounds')) || 1)), key = JSON.stringify([mechanism, rounds, last]);
  if (booked.key !== key) booked = { key, rows: ledger(mechanism, rounds, last) };
  const { rows } = booked, row = rows[R], epsilon = epsilons[chosen('epsilon')], delta = deltas[chosen('delta')];
  const multiplier = noise[chosen('delta')][chosen('epsilon')], beside = row.noise / rows[0].noise;
  byId('playground-epsilon-now').textContent = digits(epsilon);
  field('epsilon').setAttribute('aria-valuetext', `epsilon ${digits(epsilon)}`);
  const some = (count, noun) => `${whole(count)} ${noun}${count === 1 ? '' : 's'}`, apart = row.k === 1 ? '' : `, at least b = ${some(row.b, 'round')} apart`;
  const text = `With R = ${whole(R)}, a client takes part at most k = ${some(row.k, 'time')} in ${some(rounds, 'round')}${apart}. `
    + `Epsilon ${digits(epsilon)} at delta ${delta} then takes noise of ${digits(multiplier * row.noise)} clip norms in the sum of all updates`
    + `${R === 0 ? '' : `, ${percent(beside)} of what R = 0 takes`}.`;
  if (byId('playground-private').textContent !== text) byId('playground-private').textContent = text;
  showTiles(byId('playground-promise'), [
    [whole(row.k), 'participations at most', `k, in n = ${whole(rounds)}`],
    [whole(row.b), 'rounds apart at least', 'b = R + 1'],
    [digits(row.sensitivity), 'sensitivity', mechanism],
    [digits(multiplier), 'noise multiplier', `epsilon ${digits(epsilon)}, delta ${delta}`],
    [digits(multiplier * row.noise), 'clip norms of noise', 'in the sum of all updates'],
  ]);
  drawCurve(byId('playground-noise-picture'), {
    lines: [{ points: rows.map((each, place) => [place, each.noise / rows[0].noise]), color: THEORY }], points: [{ x: R, y: beside, color: THEORY }],
    at: [R, beside], right: last, top: 1.08, label: 'separation R (rounds)', legends: [['theory', 'noise, in per cent of that at R = 0']],
  });
  const every = Math.ceil(rows.length / 60);
  showRows(byId('playground-noise-data'), rows.flatMap((each, place) => (
    place % every && place !== R ? [] : [[whole(place), whole(each.b), whole(each.k), digits(each.sensitivity), digits(multiplier * each.noise)]])));
  return { rounds, privacy: `privacy: {mechanism: ${mechanism}, epsilon: ${epsilon}, delta: ${delta}, clip: 1}` };
}

function draw() {
  const asked = read(), { weights, cohort, units } = asked, key = JSON.stringify([weights, cohort]);
  if (kept.key !== key) {
    const rho = ratios(weights);
    kept = { key, rho, misplaced: misplacedTurns(weights, cohort, rho) };
  }
  const { rho, misplaced } = kept, last = misplaced.length - 1, slider = field('separation');
  slider.max = last;
  const R = Math.min(last, chosen('separation')), { bars, between } = barsOf(asked);
  const pi = participation(weights, R, cohort, rho), at0 = participation(weights, 0, cohort, rho);
  const mean = (of, turns) => (of.reduce((sum, unit) => sum + turns[unit], 0) * units) / of.length;
  const shares = bars.map((bar) => mean(bar.of, pi)), { text, enough } = sentence(R, misplaced, shares, bars, between);
  ['exponent', 'sigma', 'share', 'factor'].forEach((name) => {
    byId(`playground-${name}-line`).hidden = !{ zipf: ['exponent'], lognormal: ['sigma'], two: ['share', 'factor'] }[asked.law]?.includes(name);
    byId(`playground-${name}-now`).textContent = { share: `${chosen(name)}${SMALL_SPACE}%`, factor: `${chosen(name)}\u00d7` }[name] || chosen(name);
  });
  byId('playground-separation-now').textContent = `${whole(R)} ${R === 1 ? 'round' : 'rounds'}, of at most ${whole(last)}`;
  slider.setAttribute('aria-valuetext', `R = ${whole(R)}`);
  byId('playground-target-now').textContent = `at most ${chosen('target')}${SMALL_SPACE}%`;
  field('target').setAttribute('aria-valuetext', byId('playground-target-now').textContent);
  const bound = asked.groups && asked.clients !== chosen('clients') && asked.law !== 'file' ? `Whole groups of ${asked.size}: ${whole(asked.clients)} clients.` : '';
  byId('playground-bound').textContent = chosen('cohort') === asked.size ? bound : `A cohort of ${whole(asked.size)} is taken: from 1 to half of the clients.`;
  if (byId('playground-said').textContent !== text) byId('playground-said').textContent = text;
  showTiles(byId('playground-tiles'), [
    [percent(misplaced[R]), 'of turns misplaced', 'theory; not run'],
    [enough >= 0 ? `R = ${whole(enough)}` : 'none', 'smallest R for the target', byId('playground-target-now').textContent],
    [`${times(Math.max(...pi) * units)}\u00d7`, 'a fair share, at most', asked.groups ? 'of one group' : 'of one client'],
    [`${times(Math.min(...pi) * units)}\u00d7`, 'a fair share, at least', asked.groups ? 'of one group' : 'of one client'],
    [whole(asked.clients - R * asked.size), 'clients ready in a round', `of ${whole(asked.clients)}`],
  ]);
  const top = Math.max(1.05, ...bars.map((bar) => mean(bar.of, at0))) * 1.02;
  drawBars(byId('playground-bars-picture'), bars.map((bar, place) => ({ name: bar.name, value: shares[place], measured: null })), top, { theory: `theory at R = ${whole(R)}` });
  showRows(byId('playground-bars-data'), bars.map((bar, place) => [bar.name, times(shares[place])]));
  const target = chosen('target') / 100, points = misplaced.map((share, each) => [each, share]);
  drawCurve(byId('playground-curve-picture'), {
    lines: [{ points, color: THEORY }, { points: [[0, target], [last, target]].filter(() => target <= 1.08 * misplaced[0]), color: 'var(--muted)', thin: true }],
    points: [...(enough >= 0 ? [{ x: enough, y: misplaced[enough], color: MEASURED, shape: 'diamond' }] : []), { x: R, y: misplaced[R], color: THEORY }],
    at: [R, misplaced[R]], right: last, top: 1.08 * Math.max(0.001, misplaced[0]), label: 'separation R (rounds)',
    legends: [['theory', 'theory'], ...(enough >= 0 ? [['measured', `smallest R for the target: ${whole(enough)}`]] : []), ['target', `target, ${digits(100 * target)}${SMALL_SPACE}%`]],
  });
  const every = Math.ceil(misplaced.length / 60);
  showRows(byId('playground-curve-data'), points.filter(([each]) => each % every === 0 || each === R || each === enough).map(([each, share]) => [whole(each), percent(share)]));
  byId('playground-recipe').textContent = recipe(asked, R, drawPrivacy(R, last));
  byId('playground-how').textContent = asked.law === 'file' ? 'With the scenario file:' : 'Save this as my.fedsim.yaml, and run it with: fedsim run my.fedsim.yaml';
  const quantiles = asked.groups && asked.size > 1
    ? `A run draws a weight for each client, and a group's is the sum of its ${asked.size}, which spreads less than the weights of groups here.`
    : 'A run draws these weights at random; here they are the quantiles of the same law.';
  byId('playground-drawn').textContent = asked.law === 'lognormal' ? quantiles : '';
}

byId('playground').hidden = false;
byId('start').hidden = true;
byId('playground').addEventListener('input', draw);
draw();
addEventListener('resize', draw);
