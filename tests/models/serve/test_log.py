"""Logs of servers, and what custom models may name as such."""

from pytest_evals.models.serve.kind import log_of, new_log


def test_only_logs_of_started_servers_are_logs_of_servers(tmp_path):
    path = new_log()
    assert str(log_of({"server": {"log": path}})) == path
    other = tmp_path / "evals-server-1.log"
    other.write_text("x")
    for server in ({"log": str(other)}, {"log": "/etc/hosts"}, {"log": 1}, {}, "x"):
        assert log_of({"server": server}) is None
    assert log_of({}) is None
