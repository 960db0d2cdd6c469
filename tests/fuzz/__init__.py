"""What strangers' bytes are fed to: the same targets for hypothesis, in every test run, and for atheris, for minutes."""
