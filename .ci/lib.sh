# What .ci/run and .ci/nightly share. Both start on a clean checkout and a machine that
# has Python 3.11 or newer, with pip, and nothing else.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONDONTWRITEBYTECODE # the tests start hundreds of processes

step() { printf '\n== %s\n' "$1"; }

documented_command() { # the code block below the comment <!-- $1 -->
    local found
    found=$(awk -v mark="<!-- $1 -->" '
        $0 == mark { wanted = 1 }
        wanted && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }
    ' README.md)
    test -n "$found"
    printf '%s\n' "$found"
}

run_documented() { bash -euo pipefail -c "$(documented_command "$1")"; }

browser() { # for the tests of the HTML report, which are skipped without one
    for name in chromium chromium-browser google-chrome-stable google-chrome; do
        if command -v "$name"; then return; fi
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export TMPDIR=/var/tmp DEBIAN_FRONTEND=noninteractive # apt's user must write there
        timeout 120 apt-get update -qq
        timeout 600 apt-get install -y -qq --no-install-recommends chromium >/dev/null
    else # a download that needs no rights; the libraries that it needs may be missing
        python3 -m venv .venv
        .venv/bin/pip install --quiet -c constraints.txt playwright
        timeout 600 .venv/bin/playwright install chromium-headless-shell
    fi
}

install_firefox() { # Debian's, which the tests drive without Playwright
    for name in firefox-esr firefox; do
        if command -v "$name"; then return; fi
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export TMPDIR=/var/tmp DEBIAN_FRONTEND=noninteractive # apt's user must write there
        timeout 120 apt-get update -qq
        timeout 600 apt-get install -y -qq --no-install-recommends firefox-esr >/dev/null
    else
        return 1
    fi
}

lowest_versions() { # constraints for pip: each direct dependency at its lower bound
    python3 - <<'EOF'
import re, tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
for given in (project["dependencies"], *project["optional-dependencies"].values()):
    for requirement in given:
        found = re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)", requirement)
        if found and found[1] != "torch":
            print(f"{found[1]}=={found[2]}")
EOF
    grep '^torch==' constraints.txt # older builds of torch are gigabytes
}
