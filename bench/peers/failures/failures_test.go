//go:build unix

package failures

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The checks limit their process, so the test binary is its own child.
func TestMain(m *testing.M) {
	if os.Getenv("PEERS_CHILD") != "" {
		fmt.Println(inChild(os.Args[1], os.Args[2], os.Args[3]))
		return
	}
	os.Exit(m.Run())
}

// Of seglog every result is known; of the others only that there is one.
func TestSeglogPassesTheFiveChecks(t *testing.T) {
	results, err := runAll()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"A": "says 9, 9 right; after one append: says 10, 10 right",
		"B": "says 10, 9 right, unreadable: [5] (get offset 5: 00000000000000000000.log: position ",
		"C": "says 10, 10 right; after one append: says 11, 11 right",
		"D": "; again: acknowledged; opened again: says 12, 12 right of 12 acknowledged",
		"E": "; opened again: none of the 3 is there (says 10, 10 right)",
	}
	for _, c := range checks {
		if got := results["seglog"+c.name]; !strings.Contains(got, want[c.name]) {
			t.Errorf("%s, %s: %s, want %s", c.name, c.what, got, want[c.name])
		}
		for _, p := range peers {
			t.Logf("%s %s: %s", c.name, p.name, results[p.name+c.name])
			if results[p.name+c.name] == "" {
				t.Errorf("%s, %s: no result", p.name, c.name)
			}
		}
	}
}
