/* The sliders of a run page: what theory says of another separation R, and of weights that are spread more or less. */

const given = JSON.parse(byId('what-if-data').textContent);
const separationSlider = byId('what-if-separation'), spreadSlider = byId('what-if-spread');

/** Return the answers of theory for weights to a power: at a position of the slider, and over all of them. */
function computed(power) {
  const weights = raised(given.weights, power), rho = ratios(weights), units = weights.length;
  return {
    misplaced: misplacedTurns(weights, given.cohort, rho),
    bars: (index) => {
      const sums = given.bars.map(() => 0);
      participation(weights, given.separations[index], given.cohort, rho).forEach((share, unit) => { sums[given.bar_of[unit]] += share; });
      return sums.map((sum, bar) => (sum * units) / given.bars[bar].units);
    },
  };
}

const looked = { misplaced: given.misplaced, bars: (index) => given.shares[index] };
const answer = (power) => (given.weights ? computed(power) : looked);
const asRun = answer(1), own = given.separations.indexOf(given.separation);
let power = 1, now = asRun;

/** Return the sentence that is read aloud as a slider moves. */
function sentence(index, shares) {
  const R = given.separations[index], share = now.misplaced[index], before = asRun.misplaced[own];
  const same = index === own && power === 1, { most, least, ratio } = contrast(shares), then = asRun.bars(own);
  const weights = power === 1 ? '' : ` and with weights to the power ${digits(power)}`;
  const measured = given.measured === null ? '' : `; the run measured ${percent(given.measured)}`;
  const found = same
    ? `At R = ${whole(R)}, as it was run, theory says that ${percent(share)} of turns are misplaced${measured}.`
    : `At R = ${whole(R)}${weights}, ${percent(share)} of turns are misplaced (now ${percent(before)}).`;
  const names = [most, least].map((bar) => given.bars[bar].named), was = same ? '' : ` (now ${times(then[most] / then[least])} times)`;
  if (share < 1e-12) return `${found} All take part equally often.`;
  const turns = ratio < 1.005
    ? `Between ${given.between} there is hardly a difference.`
    : `${capital(names[0])} takes part ${times(ratio)} times as often as ${names[1]}${was}.`;
  return `${found} ${turns}`;
}

/** Return the command that runs this, and what else has to be changed for it. */
function command(R) {
  const words = [given.command], set = (path, value) => words.push(`--set '${path}=${value}'`);
  if (R !== given.separation || given.separation_was_set) set('population.*.separation', R);
  let note = '';
  if (power !== 1 && given.spread === null) {
    note = `The weights have to be changed in the scenario file: raise every client's weight to the power ${digits(power)}.`;
  } else if (power !== 1) {
    given.spread.forEach(({ path, value, by }) => set(path, Number((by === 'power' ? value ** power : value * power).toPrecision(12))));
  }
  return [words.join(' '), note];
}

function draw() {
  const index = Number(separationSlider.value), R = given.separations[index], shares = now.bars(index);
  const same = index === own && power === 1, label = same ? 'theory, as run' : 'theory; not run';
  byId('what-if-separation-now').textContent = `${whole(R)} ${R === 1 ? 'round' : 'rounds'} (${R === given.separation ? 'as run' : `run: ${whole(given.separation)}`})`;
  separationSlider.setAttribute('aria-valuetext', `R = ${whole(R)}`);
  if (spreadSlider) {
    byId('what-if-spread-now').textContent = power === 1 ? 'as run' : power === 0 ? 'all equal' : `weights to the power ${digits(power)}`;
    spreadSlider.setAttribute('aria-valuetext', byId('what-if-spread-now').textContent);
  }
  byId('what-if-label').textContent = same ? 'Theory, at what was run.' : 'Theory; not run.';
  const said = sentence(index, shares);
  if (byId('what-if-said').textContent !== said) byId('what-if-said').textContent = said;
  const { most, least, ratio } = contrast(shares);
  const ready = given.clients - R * given.turns_per_round;
  showTiles(byId('what-if-tiles'), [
    [percent(now.misplaced[index]), 'of turns misplaced', label],
    [`${times(shares[most])}\u00d7`, 'a fair share, at most', ratio < 1.005 ? '' : given.bars[most].name],
    [`${times(shares[least])}\u00d7`, 'a fair share, at least', ratio < 1.005 ? '' : given.bars[least].name],
    [whole(ready), 'clients ready in a round', `of ${whole(given.clients)}`],
  ]);
  const rows = given.bars.map((bar, place) => ({ name: bar.name, value: shares[place], measured: bar.measured }));
  const top = Math.max(1.05, ...now.bars(0), ...asRun.bars(own), ...given.bars.map((bar) => bar.measured || 0)) * 1.02;
  const measured = given.measured === null ? '' : `measured at R = ${given.separation}`;
  drawBars(byId('what-if-bars-picture'), rows, top, { theory: `theory at R = ${R}`, measured });
  showRows(byId('what-if-bars-data'), rows.map((row) => [row.name, times(row.value), row.measured === null ? '\u2013' : times(row.measured)]));
  const reach = 1.08 * Math.max(0.001, now.misplaced[0], asRun.misplaced[0]), off = given.measured > 1.5 * reach;
  const points = (values) => given.separations.map((each, place) => [each, values[place]]);
  drawCurve(byId('what-if-curve-picture'), {
    lines: [...(power === 1 ? [] : [{ points: points(asRun.misplaced), color: 'var(--muted)', thin: true }]), { points: points(now.misplaced), color: THEORY }],
    points: [
      ...(given.measured === null || off ? [] : [{ x: given.separation, y: given.measured, color: MEASURED, shape: 'diamond' }]),
      { x: R, y: now.misplaced[index], color: THEORY },
    ],
    at: [R, now.misplaced[index]],
    right: given.separations[given.separations.length - 1],
    top: Math.max(reach, off ? 0 : 1.04 * (given.measured || 0)),
    label: 'separation R (rounds)',
    legends: [
      ['theory', 'theory'],
      ...(given.measured === null ? [] : [['measured', `this run, ${percent(given.measured)}${off ? ', beyond the chart' : ''}`]]),
      ...(power === 1 ? [] : [['before', 'theory, weights as run']]),
    ],
  });
  const every = Math.ceil(given.separations.length / 60);
  showRows(byId('what-if-curve-data'), given.separations.flatMap((each, place) => (
    place % every && place !== index && place !== own ? [] : [[whole(each), percent(now.misplaced[place]), percent(asRun.misplaced[place])]])));
  if (given.command) {
    const [words, note] = command(R);
    byId('what-if-command').textContent = words;
    byId('what-if-edit').textContent = note;
  }
}

separationSlider.max = given.separations.length - 1;
separationSlider.value = own;
separationSlider.addEventListener('input', draw);
if (spreadSlider) {
  spreadSlider.value = 1;
  spreadSlider.addEventListener('input', () => {
    power = Number(spreadSlider.value);
    now = answer(power);
    draw();
  });
}
byId('what-if').hidden = false;
draw();
addEventListener('resize', draw);
