/* The slider of a sweep page: what was measured at the points that were run. */

const given = JSON.parse(byId('what-if-data').textContent);
const slider = byId('what-if-point'), choice = byId('what-if-choice');
const named = (point) => (given.name ? `${given.name} = ${point.label}` : point.label);

/** Write half of an interval of a share, or of a number; nothing where it is not known, or nothing. */
const halfShare = (half) => (half ? `\u00b1 ${half < 0.0005 ? '<0.1' : (100 * half).toFixed(1)}${SMALL_SPACE}%` : '');
const halfNumber = (half) => (half ? `\u00b1 ${digits(half)}` : '');

/** Write the share that is misplaced, and the pace, with their intervals. */
const share = (point) => `${percent(point.misplaced)} ${halfShare(point.half)}`.trim();
const pace = (point) => (point.pace === null ? '' : `${digits(point.pace)} ${halfNumber(point.pace_half)}`.trim());

function draw() {
  const chosen = given.choices[choice ? Number(choice.value) : 0], { points } = chosen;
  slider.max = points.length - 1;
  const at = points[Math.min(points.length - 1, Number(slider.value))];
  byId('what-if-point-now').textContent = at.label;
  slider.setAttribute('aria-valuetext', named(at));
  const runs = `${whole(at.seeds)} ${at.seeds === 1 ? 'seed' : 'seeds'}`, beside = chosen.name ? ` with ${chosen.name}` : '';
  const turns = at.pace === null ? '' : `, at ${pace(at)} rounds a day`;
  const said = `At ${named(at)}${beside}, ${share(at)} of turns are misplaced${turns} (measured with ${runs}).`;
  if (byId('what-if-said').textContent !== said) byId('what-if-said').textContent = said;
  showTiles(byId('what-if-tiles'), [
    [percent(at.misplaced), 'of turns misplaced', halfShare(at.half)],
    ...(at.pace === null ? [] : [[digits(at.pace), 'rounds a day', halfNumber(at.pace_half)]]),
    [whole(at.seeds), at.seeds === 1 ? 'seed' : 'seeds', ''],
  ]);
  const every = given.choices.flatMap((each) => each.points);
  drawCurve(byId('what-if-curve-picture'), {
    lines: [{ points: points.map((point) => [point.x, point.misplaced]), color: MEASURED, thin: true }],
    points: [
      ...points.map((point) => ({ x: point.x, y: point.misplaced, half: point.half, color: MEASURED, small: true })),
      { x: at.x, y: at.misplaced, color: MEASURED },
    ],
    at: [at.x, at.misplaced],
    right: points[points.length - 1].x,
    top: 1.08 * Math.max(0.001, ...every.map((point) => point.misplaced + (point.half || 0))),
    label: given.axis,
    legends: [['measured', `measured${beside}`]],
    marks: points.map((point) => [point.x, point.label]),
  });
  showRows(byId('what-if-curve-data'), points.map((point) => [named(point), share(point), pace(point) || '\u2013']));
}

slider.addEventListener('input', draw);
if (choice) choice.addEventListener('input', draw);
byId('what-if').hidden = false;
draw();
addEventListener('resize', draw);
