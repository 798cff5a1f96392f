/* The long-run participation of clients that all wait R rounds between two turns: the closed form of docs/closed-form.md.

   The leaders of R + 1 consecutive cohorts are a conditional Poisson sample of n = R + 1 clients. Its recurrences are used
   forwards from the empty sample where p / rho <= 1, and backwards from the full one beyond: sums of positive terms, and
   no division by a small difference. fedsim/theory/recurrence.py has the same two, with the reason why they are stable. */

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

/** Return each client's share of all turns in the long run: weights above 0 of N clients, separation R, cohort B. */
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

/** Return the share of the turns that are misplaced, the total variation from uniform, for R = 0, 1, ..., N / B - 1. */
function misplacedTurns(weights, B, rho = ratios(weights)) {
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

/** Return weights raised to a power, the largest being 1; none vanishes. */
function raised(weights, power) {
  const largest = Math.max(...weights);
  return weights.map((p) => Math.max((p / largest) ** power, 1e-300));
}
