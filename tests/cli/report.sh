#!/usr/bin/env bash
# ogrom report on a run that was trained here and on two parts of a study: the page is one file without network and
# script, parses as XML, and says the same figures as CSV, JSON and HDF5; causes sum to the step; what cannot be
# reported is refused by name.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
check="$SOURCE/tests/cli/report_check.py"

# A run of two ranks: the slowest rank is told from its times.
make_corpus 200
make_run 12
expect_exit 0 launch 2 "$OGROM" train run.toml
[ "$(grep -c . out/ranks.csv)" -eq 4 ] || { cat out/ranks.csv; fail "ranks.csv: two head lines and two ranks"; }
expect_exit 0 "$OGROM" report out
expect_text '^run out: step 12, loss [0-9.]+, validation [0-9.]+, [0-9.,]+ tokens/s'
python3 "$check" out/report run || fail "the report of the run"
expect_exit 0 "$OGROM" report out/metrics.csv --output elsewhere --json
python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); assert d["format"] == 1 and len(d["tables"]["ranks"]["rows"]) == 2' said ||
    fail "--json"
diff -q elsewhere/report.csv out/report/report.csv || fail "the same run, other figures"

# Two parts of a study, joined; points made by hand, one refused, one oversubscribed, one with a hostile name.
python3 "$check" --make a b
expect_exit 0 "$OGROM" report a b --output study
expect_text 'weak +dp +1 -> +2 ranks .* efficiency +90.0 %'
python3 "$check" study study || fail "the report of the study"
expect_exit 0 "$OGROM" report a/points/*.json b
diff -q report/report.csv study/report.csv || fail "files and folders of the same points, other figures"
mkdir parts && mv a b parts/
expect_exit 0 "$OGROM" report parts
diff -q parts/report/report.csv study/report.csv || fail "a folder of studies, other figures"

# A new report in the place of an earlier one leaves no table of it, and touches nothing else.
mkdir -p study/tables && printf 'mine\n' > study/tables/mine.csv
expect_exit 0 "$OGROM" report out --output study
[ ! -e study/tables/causes.csv ] || fail "a table of the earlier report is left"
[ "$(cat study/tables/mine.csv)" = mine ] || fail "a file of the user's is gone"
expect_exit 0 "$OGROM" report parts --output study

# Without gnuplot: tables, and a sentence in place of each chart.
mkdir empty-path
expect_exit 0 env PATH="$work/empty-path" "$OGROM" report parts --output plain
grep -q 'No chart: gnuplot is not installed' plain/report.html || fail "no sentence instead of the charts"
diff -q plain/report.csv study/report.csv || fail "figures depend on gnuplot"

# What a user can do wrong.
expect_exit 2 "$OGROM" report
expect_exit 4 "$OGROM" report nowhere
expect_text 'nowhere: does not exist; would be right: a study'
expect_exit 2 "$OGROM" report corpus.txt
expect_text 'corpus.txt: no file that report knows'
expect_exit 2 "$OGROM" report out parts
expect_text 'out is a run, parts/a/points/'
cp -r parts/a again && sed -i 's/"commit": "c"/"commit": "d"/' again/points/*
expect_exit 2 "$OGROM" report parts/a again
expect_text 'parts/a/points/weak-(.*).json and again/points/weak-\1.json both measure ".*" on 1 ranks \(weak\)'
echo '{"format": 9}' > again/points/x.json
expect_exit 3 "$OGROM" report again
expect_text 'again/points/x.json: format: 9'
expect_exit 2 "$OGROM" report parts --output ''
expect_text '.*--output: no folder'
printf 'x' > afile
expect_exit 4 "$OGROM" report parts --output afile/report
expect_text 'afile'
echo "report: run and study, five forms of the same figures"
