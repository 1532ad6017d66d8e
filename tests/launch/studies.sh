# shellcheck shell=bash
# shellcheck disable=SC2154 # id, log, what: slurm.sh
# Sourced by slurm.sh: the study scripts as they are shipped, on four tasks of four nodes.
# A tiny model, one layout, few steps: that the study completes is the point here, not its figures.
scale_options=(--repeats 1 --steps 3 --warmup 1)
for kind in weak strong; do
    what="$kind study"
    STUDY=study-$kind job "${kind}_study" --nodes=4 --ntasks-per-node=1 -- run.toml "${scale_options[@]}"
    ends COMPLETED 0
    [ "$(find "study-$kind/points" -name '*.json' | wc -l)" -eq 3 ] || { cat "$log"; fail "$what: not the points of 1, 2 and 4 ranks"; }
done
what="study as a job array"
printf 'dp: parallel.zero=0 # plain\n\n# none\nzero1: parallel.zero=1\n' > layouts
STUDY=study-array job study_array --nodes=2 --ntasks-per-node=1 --array=0-1 -- run.toml layouts "${scale_options[@]}"
array_done() { [ -z "$(squeue -h -j "$id")" ]; }
until_true 240 array_done || fail "$what: does not end"
for i in 0 1; do
    [ -n "$(find "study-array-$i/points" -name '*.json')" ] || { cat ogrom-array-"$id"-*.log; fail "$what: no points of layout $i"; }
done
"$OGROM" report study-array-0 study-array-1 > report.log 2>&1 || { cat report.log; fail "$what: report"; }
echo "$what: joined, $SECONDS s"
