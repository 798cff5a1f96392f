/* The privacy ledger: what n rounds with a separation promise to a client, and the noise that it takes. */

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
