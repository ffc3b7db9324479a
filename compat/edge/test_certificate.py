"""The copy of Caddy's certificate: whole, fitting, and changed in one step."""

import grp
import os
import pathlib
import subprocess
import threading

import pytest

SYSTEMD = pathlib.Path(__file__).resolve().parent.parent.parent / "systemd"
NAME = "sqs.example.org"


@pytest.fixture
def folders(tmp_path):
    storage, copy = tmp_path / "certificates", tmp_path / "copy"
    (storage / "acme.example-directory" / NAME).mkdir(parents=True)
    copy.mkdir()
    return storage, copy


def certificate(folder, stem, name=NAME, days=90):
    """A self-signed pair where Caddy would put one."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days),
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
                    "-keyout", folder / f"{stem}.key", "-out", folder / f"{stem}.crt"], check=True, capture_output=True)


def copying(storage, copy):
    group = grp.getgrgid(os.getgid()).gr_name
    return subprocess.run([SYSTEMD / "copy-certificate", NAME, "--from", storage, "--to", copy, "--group", group], capture_output=True, text=True)


def test_a_pair_is_copied_once_and_again_when_it_changes(folders):
    storage, copy = folders
    caddys = storage / "acme.example-directory" / NAME
    certificate(caddys, NAME)
    for words in ("copying", "already"):
        done = copying(storage, copy)
        assert (done.returncode, words in done.stdout) == (0, True), done
        assert (copy / "certificate.pem").read_bytes() == (caddys / f"{NAME}.crt").read_bytes()
        assert (copy / "key.pem").read_bytes() == (caddys / f"{NAME}.key").read_bytes()
    assert oct((copy / "key.pem").stat().st_mode)[-3:] == "640"
    certificate(caddys, NAME)
    assert "copying" in copying(storage, copy).stdout
    assert (copy / "key.pem").read_bytes() == (caddys / f"{NAME}.key").read_bytes()
    assert sorted(path.name.split(".")[0] for path in copy.iterdir()) == ["certificate", "current", "key", "pair"], "nothing is left behind"


def test_half_a_pair_a_wrong_name_or_none_leave_the_copy_as_it_was(folders):
    storage, copy = folders
    caddys = storage / "acme.example-directory" / NAME
    done = copying(storage, copy)
    assert (done.returncode, "no certificate" in done.stderr) == (1, True), done
    certificate(caddys, NAME)
    assert copying(storage, copy).returncode == 0
    before = (copy / "key.pem").read_bytes()

    whole = (caddys / f"{NAME}.crt").read_bytes()
    certificate(caddys, NAME)
    (caddys / f"{NAME}.crt").write_bytes(whole)
    done = copying(storage, copy)
    assert (done.returncode, "do not fit" in done.stderr) == (1, True), done

    certificate(caddys, NAME, name="other.example.org")
    done = copying(storage, copy)
    assert (done.returncode, "not for" in done.stderr) == (1, True), done
    assert (copy / "key.pem").read_bytes() == before


def test_a_reader_never_sees_a_key_of_one_pair_and_a_certificate_of_another(folders):
    storage, copy = folders
    caddys = storage / "acme.example-directory" / NAME
    certificate(caddys, NAME)
    copying(storage, copy)
    pairs, seen, done = set(), set(), threading.Event()

    def read():
        while not done.is_set():
            # As a reader does it that wants both of one moment: through the folder that the link names.
            try:
                pair = copy / os.readlink(copy / "current")
                seen.add(((pair / "certificate.pem").read_bytes(), (pair / "key.pem").read_bytes()))
            except FileNotFoundError:
                continue

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(5):
            pairs.add(tuple((caddys / f"{NAME}{end}").read_bytes() for end in (".crt", ".key")))
            certificate(caddys, NAME)
            assert copying(storage, copy).returncode == 0
        pairs.add(tuple((caddys / f"{NAME}{end}").read_bytes() for end in (".crt", ".key")))
    finally:
        done.set()
        reader.join()
    assert seen and seen <= pairs


@pytest.mark.parametrize(("days", "code"), [(90, 0), (10, 1)])
def test_a_certificate_near_its_end_is_told(folders, days, code):
    _, copy = folders
    certificate(copy, "some", days=days)
    checked = subprocess.run([SYSTEMD / "check-certificate", copy / "some.crt"], capture_output=True, text=True)
    assert checked.returncode == code, checked
    missing = subprocess.run([SYSTEMD / "check-certificate", copy / "absent"], capture_output=True, text=True)
    assert (missing.returncode, "no certificate" in missing.stderr) == (1, True)
