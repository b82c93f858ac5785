// Package cli is the command line of logtool: one file for each command, and
// what they share.
//
// A command parses its flags, calls the library and prints. It writes results to
// App.Out, says everything else on stderr, and returns an error instead of
// printing one; status.go turns that into the exit status.
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// commands returns what makes the commands. It is a function because demo runs
// others.
func commands() []func(*App) *cobra.Command {
	return []func(*App) *cobra.Command{
		newLsCommand,
		newStatCommand,
		newDumpCommand,
		newCatCommand,
		newLookupCommand,
		newProducersCommand,
		newTransactionsCommand,
		newVerifyCommand,
		newReindexCommand,
		newRecoverCommand,
		newRepairCommand,
		newAppendCommand,
		newCompactCommand,
		newTrimCommand,
		newOffsetsCommand,
		newBenchCommand,
		newDemoCommand,
		newCompletionCommand,
		newVersionCommand,
	}
}

// The groups of commands in help.
const (
	groupInspect = "inspect"
	groupCheck   = "check"
	groupChange  = "change"
	groupOffsets = "offsets"
	groupOther   = "other"
)

// Run runs the tool with its arguments, those behind the name of the program,
// and returns the exit status. All results have been written when it returns.
func Run(ctx context.Context, env Env, args []string) int {
	app := newApp(env)
	root := newRoot(app)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !app.ran {
		// Whatever failed before a command began is about how it was called;
		// cobra has no category for that.
		err = &categorized{err, errUsage}
	}
	app.usageHint = cmd.CommandPath() + " --help"
	// An interrupted command returns the context's error, wrapped by whoever
	// noticed; the signal is in the cause.
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if flushed := app.Out.Flush(); err == nil {
		err = flushed
	}
	app.report(err)
	return status(err)
}

// newApp returns an App whose flags are at their defaults.
func newApp(env Env) *App {
	app := &App{
		Env:   env,
		Out:   newOutput(env.Stdout),
		color: newEnum("auto", "auto", "always", "never"),
	}
	app.Out.lineFlush = env.StdoutTerminal
	return app
}

// NewRoot returns the tree of all commands, for a program that documents them.
func NewRoot(env Env) *cobra.Command { return newRoot(newApp(env)) }

func newRoot(app *App) *cobra.Command {
	root := &cobra.Command{
		Use:           "logtool",
		Short:         "Look into commit logs and check them, those of a Kafka broker too",
		Example:       "  logtool demo\n  logtool ls orders-0",
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		// There is one of our own.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(app.Stdin)
	root.SetOut(app.Out)
	root.SetErr(app.Stderr)
	root.AddGroup(
		&cobra.Group{ID: groupInspect, Title: "Inspect"},
		&cobra.Group{ID: groupCheck, Title: "Check and repair"},
		&cobra.Group{ID: groupChange, Title: "Change"},
		&cobra.Group{ID: groupOffsets, Title: "Offsets"},
		&cobra.Group{ID: groupOther, Title: "Other"},
	)
	app.addGlobalFlags(root)
	for _, command := range commands() {
		root.AddCommand(command(app))
	}
	addHelp(root)
	wrap(app, root)
	return root
}

// outputFormats are what every command prints.
var outputFormats = []string{"table", "json"}

// allowOutput gives a command another output format, besides those of all.
func allowOutput(cmd *cobra.Command, format string) {
	f := newEnum("table", append(slices.Clone(outputFormats), format)...)
	addEnumFlag(cmd, cmd.Flags(), f, "output", "o", "what results look like")
}

// addGlobalFlags adds the flags that every command has.
func (app *App) addGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	addEnumFlag(root, flags, newEnum("table", outputFormats...), "output", "o", "what results look like")
	addEnumFlag(root, flags, app.color, "color", "", "colours")
	flags.BoolVarP(&app.quiet, "quiet", "q", false, "results only: no progress, no warnings")
	flags.BoolVarP(&app.verbose, "verbose", "v", false, "tell what is being opened")
	flags.BoolVar(&app.bytes, "bytes", false, "sizes in bytes")
	flags.BoolVar(&app.noHeader, "no-header", false, "tables without their first line")
}

// wrap notes when a command begins to run, which is what parts usage errors from
// all others, and gives it its flags' values.
func wrap(app *App, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		wrap(app, sub)
	}
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		app.begin(cmd)
		return run(cmd, args)
	}
}

// noCommand refuses arguments of a command that only has others below it: they can
// only be commands that do not exist.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; is it %s?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// oneArg wants one argument, which the usage line calls name.
func oneArg(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("missing argument %s", name)
		case 1:
			return nil
		default:
			return fmt.Errorf("unexpected argument %q behind %s", args[1], name)
		}
	}
}

// someArgs wants one argument or more.
func someArgs(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("missing argument %s", name)
		}
		return nil
	}
}

// noArgs wants none.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// exitStatus is an annotation that help ends with, about this command's exit
// statuses.
func exitStatus(text string) map[string]string { return map[string]string{ExitStatusKey: text} }

// ExitStatusKey is the annotation of a command about its exit statuses.
const ExitStatusKey = "exit-status"
