"""Where an answer runs: a process of its own, shut in, which may say what it likes and is believed on evidence."""
