"""FedAvg and Debiased FedAvg on handwritten digits, with the cohorts of phones that charge at night."""
