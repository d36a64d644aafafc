"""The embedded server: made, started, adopted, killed and stopped for real, on both versions."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dj_database_url
import psycopg
import pytest

from config.local.errors import PostgresForeignError, PostgresStartError, PostgresVersionError
from config.local.lockfile import running_server
from config.local.postgres import EmbeddedPostgres, PostgresAddress

ServerMaker = Callable[..., EmbeddedPostgres]
REPOSITORY = Path(__file__).parents[2]

both_versions = pytest.mark.parametrize("version", [18, 16])


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait for a condition; pytest's time limit is the end of patience."""
    while not is_so():
        time.sleep(0.01)


def pid_of(server: EmbeddedPostgres) -> int:
    running = running_server(server._data_dir.resolve())
    assert running is not None
    return running.pid


class TestStart:
    @both_versions
    def test_start_new_folder_serves_utf8_in_utc_with_pgvector(
        self, make_server: ServerMaker, version: int
    ) -> None:
        url = make_server(version=version).start().admin_url()
        assert str(ask(url, "SHOW server_version")).startswith(f"{version}.")
        assert ask(url, "SHOW server_encoding") == "UTF8"
        assert ask(url, "SHOW timezone") == "UTC"
        assert ask(url, "SHOW listen_addresses") == ""
        assert ask(url, "SELECT lower('ÄÖ Größe 张老师')") == "äö größe 张老师"
        assert ask(
            url,
            "SELECT string_to_array(default_version, '.')::int[] >= '{0,8}' "
            "FROM pg_available_extensions WHERE name = 'vector'",
        )

    @both_versions
    def test_start_durable_keeps_fsync_and_checksums_on(
        self, make_server: ServerMaker, version: int
    ) -> None:
        url = make_server(version=version, is_durable=True).start().admin_url()
        for name in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums"):
            assert ask(url, f"SHOW {name}") == "on", name

    def test_start_not_durable_drops_the_waits(self, make_server: ServerMaker) -> None:
        url = make_server(is_durable=False).start().admin_url()
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert ask(url, f"SHOW {name}") == "off", name

    def test_start_settings_of_the_caller_reach_the_server(self, make_server: ServerMaker) -> None:
        wishes = {"work_mem": "5MB", "cluster_name": "it's \\ ours"}
        url = make_server(settings=wishes).start().admin_url()
        assert ask(url, "SHOW work_mem") == "5MB"
        assert ask(url, "SHOW cluster_name") == "it's \\ ours"

    def test_start_twice_adopts_the_running_server(self, make_server: ServerMaker) -> None:
        first, second = make_server(), make_server()
        address = first.start()
        pid = pid_of(first)
        assert second.start() == address
        assert pid_of(second) == pid

    def test_start_variables_of_the_caller_do_not_reach_the_server(
        self, make_server: ServerMaker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PGPORT", "1")
        monkeypatch.setenv("PGDATA", "/nowhere")
        monkeypatch.setenv("LC_ALL", "xx_XX.nonsense")
        address = make_server().start()
        monkeypatch.undo()
        assert ask(address.admin_url(), "SHOW port") == str(address.port)

    def test_start_log_holds_no_statement_and_no_row(self, make_server: ServerMaker) -> None:
        server = make_server()
        url = server.start().admin_url()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (note text CHECK (note <> 'my secret diary'))")
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("INSERT INTO t VALUES ('my secret diary')")
        log = (server._data_dir.resolve() / "server.log").read_text(encoding="utf-8")
        assert "violates check constraint" in log
        assert "secret" not in log


class TestRefusals:
    def test_start_other_version_in_the_folder_names_both(self, make_server: ServerMaker) -> None:
        old = make_server(version=16)
        old.start()
        old.stop()
        with pytest.raises(PostgresVersionError, match=r"PostgreSQL 16, not 18"):
            make_server(version=18).start()

    def test_start_unknown_version_lists_the_known(self, make_server: ServerMaker) -> None:
        with pytest.raises(PostgresStartError, match="16, 18"):
            make_server(version=9).start()

    def test_start_folder_with_other_files_is_left_alone(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        thesis = open_tmp_path / "pg" / "thesis.txt"
        thesis.parent.mkdir()
        thesis.write_text("years of work", encoding="utf-8")
        with pytest.raises(PostgresForeignError):
            make_server().start()
        assert thesis.read_text(encoding="utf-8") == "years of work"

    def test_start_cluster_of_another_program_is_left_alone(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        server = make_server()
        server.start()
        server.stop()
        (open_tmp_path / "pg" / "credence.conf").unlink()
        with pytest.raises(PostgresForeignError, match="did not make"):
            make_server().start()

    def test_start_bad_setting_says_what_the_server_said(self, make_server: ServerMaker) -> None:
        with pytest.raises(PostgresStartError, match="no_such_setting"):
            make_server(settings={"no_such_setting": "1"}).start()

    def test_new_tcp_without_password_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="password"):
            EmbeddedPostgres(data_dir=tmp_path, tcp_port=1)

    def test_start_half_made_folder_of_an_interrupted_run_is_replaced(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        half = open_tmp_path / "pg-half"
        half.mkdir()
        (half / "PG_VERSION").write_text("18", encoding="ascii")
        assert ask(make_server().start().admin_url(), "SELECT 1") == 1
        assert not half.exists()


class TestStop:
    def test_stop_ends_the_server_and_a_second_start_finds_the_data(
        self, make_server: ServerMaker
    ) -> None:
        server = make_server()
        url = server.start().admin_url()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT 7 AS n")
        assert server.is_running()
        server.stop()
        assert not server.is_running()
        server.stop()
        assert ask(server.start().admin_url(), "SELECT n FROM t") == 7

    def test_stop_never_started_touches_nothing(self, open_tmp_path: Path) -> None:
        server = EmbeddedPostgres(data_dir=open_tmp_path / "never" / "pg")
        server.stop()
        assert not server.is_running()
        assert list(open_tmp_path.iterdir()) == []

    def test_stop_leaves_the_server_of_another_folder_alone(self, make_server: ServerMaker) -> None:
        ours, other = make_server(name="pg"), make_server(name="pg2")
        ours.start()
        url = other.start().admin_url()
        ours.stop()
        assert ask(url, "SELECT 1") == 1


class TestKilled:
    @both_versions
    def test_restart_after_kill_9_keeps_every_commit(
        self, make_server: ServerMaker, version: int
    ) -> None:
        server = make_server(version=version, is_durable=True)
        url = server.start().admin_url()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (n int)")
            for n in range(50):
                connection.execute("INSERT INTO t VALUES (%s)", [n])
            os.kill(pid_of(server), signal.SIGKILL)
        wait_for(lambda: not server.is_running())
        assert ask(server.start().admin_url(), "SELECT count(*) FROM t") == 50

    def test_restart_while_a_child_of_the_killed_server_still_works_waits_for_it(
        self, make_server: ServerMaker
    ) -> None:
        """Two servers on one folder would destroy it; PostgreSQL sees the child, we are patient."""
        server = make_server()
        url = server.start().admin_url()
        busy = (
            "DO $$ DECLARE end_at timestamptz := clock_timestamp() + '2s'; BEGIN "
            "WHILE clock_timestamp() < end_at LOOP NULL; END LOOP; END $$"
        )
        with psycopg.connect(url, autocommit=True) as connection:
            child = connection.info.backend_pid
            worker = threading.Thread(target=connection.execute, args=[busy])
            worker.start()
            wait_for(
                lambda: (
                    ask(url, f"SELECT state FROM pg_stat_activity WHERE pid = {child}") == "active"
                )
            )
            os.kill(pid_of(server), signal.SIGKILL)
            assert ask(server.start().admin_url(), "SELECT 1") == 1
            worker.join()
        log = (server._data_dir.resolve() / "server.log").read_text(encoding="utf-8")
        assert log.index("unexpected postmaster exit") < log.rindex("starting PostgreSQL")

    def test_restart_stale_lock_whose_pid_lives_on_as_another_process_succeeds(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        server = make_server()
        server.start()
        lock = open_tmp_path / "pg" / "postmaster.pid"
        lines = lock.read_text(encoding="utf-8").splitlines()
        owner = lock.stat().st_uid
        server.stop(mode="immediate")
        with subprocess.Popen(["/bin/sleep", "100"], user=owner) as bystander:
            try:
                text = "\n".join([str(bystander.pid), *lines[1:]]) + "\n"
                lock.write_text(text, encoding="utf-8")
                os.chown(lock, owner, -1)
                assert not server.is_running()
                assert ask(server.start().admin_url(), "SELECT 1") == 1
                assert bystander.poll() is None
            finally:
                bystander.kill()

    def test_ctrl_c_in_the_starters_terminal_leaves_the_server_running(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        """A starter in its own process group gets SIGINT as a terminal would send it."""
        server = make_server()
        program = f"""
            import signal
            import sys
            from pathlib import Path
            from config.local.postgres import EmbeddedPostgres
            # A shell that starts this suite behind itself has it ignore the signal.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            EmbeddedPostgres(data_dir=Path({str(open_tmp_path / "pg")!r}), is_durable=False).start()
            sys.stdout.write("up"); sys.stdout.flush()
            sys.stdin.read()
        """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as starter:
            assert starter.stdout is not None
            assert starter.stdout.read(2) == b"up"
            os.killpg(starter.pid, signal.SIGINT)
            starter.wait(timeout=30)
        assert ask(server.start().admin_url(), "SELECT 1") == 1
        assert os.getsid(pid_of(server)) == pid_of(server)


class TestAddress:
    def test_url_odd_characters_are_read_back_by_both_readers(self) -> None:
        address = PostgresAddress(
            host="/Some Folder/数据/x@y", port=5432, superuser="postgres", password=None
        )
        url = address.url(user="cre/dence", dbname="d b", password="p@s:s/ö%")
        parsed = dj_database_url.parse(url)
        assert (parsed["HOST"], parsed["USER"], parsed["PASSWORD"], parsed["NAME"]) == (
            "/Some Folder/数据/x@y",
            "cre/dence",
            "p@s:s/ö%",
            "d b",
        )
        read = psycopg.conninfo.conninfo_to_dict(url)
        assert (read["host"], read["user"], read["password"], read["dbname"]) == (
            "/Some Folder/数据/x@y",
            "cre/dence",
            "p@s:s/ö%",
            "d b",
        )

    def test_start_path_too_long_for_a_socket_uses_a_closed_folder_elsewhere(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        address = make_server(folder=open_tmp_path / ("x" * 90)).start()
        assert open_tmp_path not in Path(address.host).parents
        assert Path(address.host).stat().st_mode & 0o777 == 0o700
        assert ask(address.admin_url(), "SELECT 1") == 1
        make_server(folder=open_tmp_path / ("x" * 90)).stop()
        Path(address.host).rmdir()

    def test_start_socket_folder_open_to_others_is_refused(
        self, make_server: ServerMaker, open_tmp_path: Path
    ) -> None:
        trap = open_tmp_path / "pg-run"
        trap.mkdir()
        trap.chmod(0o777)
        with pytest.raises(PostgresForeignError, match="0700"):
            make_server().start()


class TestTcp:
    @pytest.fixture
    def free_port(self) -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        return port

    @both_versions
    def test_start_tcp_wants_the_password(
        self, make_server: ServerMaker, free_port: int, version: int
    ) -> None:
        address = make_server(version=version, tcp_port=free_port, password="right").start()
        assert (address.host, address.port) == ("127.0.0.1", free_port)
        assert ask(address.admin_url(), "SELECT inet_server_port()") == free_port
        for password in ("wrong", None):
            with pytest.raises(psycopg.OperationalError):
                ask(address.url(user="postgres", dbname="postgres", password=password), "SELECT 1")

    def test_start_tcp_over_a_socket_only_server_is_refused(
        self, make_server: ServerMaker, free_port: int
    ) -> None:
        make_server().start()
        with pytest.raises(PostgresStartError, match="socket only"):
            make_server(tcp_port=free_port, password="x").start()
