import pytest

import pytest_evals as ev


@pytest.fixture(scope="session")
def topic():
    return "password"


@ev.eval(score=[ev.contains(), ~ev.starts_with("Sorry")], gates=["contains >= 0.01"])
def bot(topic):
    yield ev.case(f"How do I reset my {topic}?", target="settings", id="reset")
    yield ev.case([{"role": "user", "content": "How do I pay?"}], target="card", level=2)


@bot.score
def short(answer, case):
    return min(1, 20 / len(answer))


@bot.score("level")
async def deep(answer, row):
    return ev.Score(value=row.get("level", 0), explanation="as given")
