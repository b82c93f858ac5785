package work

import (
	"encoding/json"
	"fmt"
	"io"
)

// ChildEnv is set in the environment of a process that is to do one job.
const ChildEnv = "PEERS_JOB"

// ChildArgs are the arguments of such a process.
func ChildArgs(job string) []string { return []string{"bench", "job", job} }

// Child does the job in the arguments of a child and prints the result.
func Child(args []string, specs []Spec, out io.Writer) error {
	if len(args) != 3 || args[0] != "bench" || args[1] != "job" {
		return fmt.Errorf("arguments of a child: %q", args)
	}
	job, err := ParseJob(args[2])
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(Run(job, specs))
}
