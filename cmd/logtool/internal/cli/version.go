package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand(app *App) *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "the version of this program, and what it reads",
		Example:     "  logtool version\n  logtool version -o json",
		GroupID:     groupOther,
		Args:        noArgs,
		Annotations: exitStatus("0 done, 2 usage."),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion(debug.ReadBuildInfo())
			if app.Out.JSON() {
				return app.Out.Emit(app.Out.Object("version").
					String("version", v.version).String("revision", v.revision).String("go", v.goVersion))
			}
			if err := app.Out.Linef("logtool %s (%s, %s)", v.version, v.revision, v.goVersion); err != nil {
				return err
			}
			return app.Out.Linef("reads   %s", readable)
		},
	}
}

// readable is what this version can read, in one line.
const readable = "record batch v2, message sets v0 and v1; offset, time and transaction index; producer snapshot v1; checkpoints v0"

type version struct{ version, revision, goVersion string }

// buildVersion takes the version from what the go command has left in the
// program; it leaves none in a test.
func buildVersion(info *debug.BuildInfo, ok bool) version {
	v := version{"(unknown)", "unknown", "unknown"}
	if !ok {
		return v
	}
	v.goVersion = info.GoVersion
	if info.Main.Version != "" {
		v.version = info.Main.Version
	}
	modified := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.revision = s.Value[:min(7, len(s.Value))]
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified {
		v.revision += "+"
	}
	return v
}
