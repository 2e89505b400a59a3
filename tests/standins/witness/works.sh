#!/bin/sh
# Works for a number of steps and says so in the witness file; at the end it leaves a file named after the attempt, and
# commits it where there is a repository. Every line is one write. The lock tells of a second one at the same task.
# usage: works.sh WITNESS STEPS SECONDS
witness=$1 steps=$2 pause=$3
say() { echo "$1 $FLEET_TASK_ID $FLEET_ATTEMPT $$" >>"$witness"; }
exec 9>>"$witness.$FLEET_TASK_ID.lock"
flock -n 9 || say double
say start
echo "begun $FLEET_ATTEMPT"
while [ "$steps" -gt 0 ]; do
    sleep "$pause"
    say beat
    echo "beat $steps"
    steps=$((steps - 1))
done
echo "$FLEET_ATTEMPT" >"$FLEET_ATTEMPT.done"
if [ -d .git ]; then
    rm -f .git/index.lock .git/HEAD.lock .git/refs/heads/*.lock
    git add "$FLEET_ATTEMPT.done" && git -c user.name=w -c user.email=w@w commit -q -m "$FLEET_ATTEMPT"
fi
say end
echo "done $FLEET_ATTEMPT"
