"""JupyterLab in headless Chromium; a package, so that its fixtures end before the next folder begins."""
