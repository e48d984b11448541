"""Single changes in the core, each tried against the tests nearest to it: who guards the guards."""
