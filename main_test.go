package seglog_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes plain runs quick: the models of this package do real I/O, and a
// hundred histories of each take longer than a test run should. By hand and in CI
// -rapid.checks asks for more.
func TestMain(m *testing.M) {
	flag.Parse()
	const models = "rapid.checks"
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == models })
	if !asked {
		if err := flag.Set(models, "30"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
