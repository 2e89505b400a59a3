"""Questions of agents to people, and their answers: a task's Q&A.md, and the tool that asks and waits."""
