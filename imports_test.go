package seglog_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors lists, for each package of ours, the packages of ours it may import.
// What is not listed here may not exist: a new package says where it stands.
var floors = map[string][]string{
	"internal/vfs":           {},
	"internal/layout":        {},
	"internal/prefetch":      {},
	"record":                 {},
	"internal/mapped":        {"internal/vfs"},
	"index":                  {"internal/mapped", "internal/vfs"},
	"timeindex":              {"internal/mapped", "internal/vfs"},
	"internal/checkpoint":    {"internal/vfs", "internal/layout"},
	"internal/leaderepoch":   {"internal/vfs", "internal/layout", "internal/checkpoint"},
	"internal/txnindex":      {"internal/vfs", "internal/layout"},
	"internal/producerstate": {"record", "internal/vfs", "internal/layout"},
	"segment":                {"record", "index", "timeindex", "internal/mapped", "internal/prefetch", "internal/vfs", "internal/layout", "internal/txnindex"},
	"compaction":             {"record", "segment", "internal/txnindex", "internal/layout", "internal/vfs"},
	"": {"segment", "record", "index", "timeindex", "internal/vfs", "internal/layout", "internal/checkpoint",
		"internal/txnindex", "internal/producerstate", "internal/leaderepoch", "compaction"},
	"offsetslog": {"", "record"},
	"consumer":   {"", "offsetslog", "record"},
	"logtest":    {"", "internal/vfs", "internal/vfs/crashfs", "internal/vfs/faultfs"},
}

const module = "github.com/seglog/seglog"

// testing libraries, and those that only a test or a command may have
var notInTheLibrary = []string{"testing", "github.com/stretchr/testify", "pgregory.net/rapid", "github.com/spf13/cobra", "log", "flag"}

// doors are what only internal/vfs may use, besides functions of package os.
var doors = []string{"syscall", "golang.org/x/sys/unix", "golang.org/x/sys/windows", "github.com/edsrzf/mmap-go"}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...").Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "internal/vfs/") || name == "bench" {
			continue
		}
		allowed, known := floors[name]
		require.True(t, known, "package %q has no floor: say in floors what it may import", name)
		for _, i := range p.Imports {
			if ours, ok := strings.CutPrefix(i, module+"/"); ok {
				require.Contains(t, allowed, ours, "%q imports %q", name, ours)
			}
			if i == module {
				require.Contains(t, allowed, "", "%q imports the root", name)
			}
			require.NotContains(t, notInTheLibrary, i, "%q imports %q", name, i)
			if name != "internal/vfs" {
				require.NotContains(t, doors, i, "%q imports %q", name, i)
			}
		}
		if name != "internal/vfs" {
			for _, f := range p.GoFiles {
				requireNoSystemCalls(t, filepath.Join(p.Dir, f))
			}
		}
	}
}

// requireNoSystemCalls lets a file use the constants and errors of package os,
// and nothing else of it.
func requireNoSystemCalls(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "os" && pkg.Obj == nil {
			constant := strings.HasPrefix(sel.Sel.Name, "O_") || strings.HasPrefix(sel.Sel.Name, "Err")
			require.True(t, constant, "%s uses os.%s", path, sel.Sel.Name)
		}
		return true
	})
}
