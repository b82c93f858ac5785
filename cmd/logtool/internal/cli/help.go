package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// addHelp replaces cobra's help: first what the command does, then examples,
// then the rest.
func addHelp(root *cobra.Command) {
	root.PersistentFlags().BoolP("help", "h", false, "what a command does and takes")
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(cmd.OutOrStdout(), cmd) })
	root.SetHelpCommand(&cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "what a command does and takes",
		Example:           "  logtool help dump\n  logtool dump --help",
		GroupID:           groupOther,
		ValidArgsFunction: completeCommands,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return UsageErrorf("unknown command %q", strings.Join(args, " "))
			}
			return cmd.Help()
		},
	})
	root.SetHelpCommandGroupID(groupOther)
}

func writeHelp(w io.Writer, cmd *cobra.Command) {
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(about))
	if cmd.Example != "" {
		fmt.Fprintf(w, "%s\n\n", strings.TrimRight(cmd.Example, "\n"))
	}
	switch {
	case !cmd.HasParent():
		writeCommands(w, cmd)
	case cmd.HasSubCommands():
		fmt.Fprintf(w, "Usage: %s [flags]\n\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		writeSubcommands(w, cmd)
	default:
		fmt.Fprintf(w, "Usage: %s [flags]\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
	cmd.InitDefaultHelpFlag()
	if flags := cmd.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsages())
	}
	if cmd.HasParent() {
		fmt.Fprint(w, "\nGlobal flags: -o/--output, -q/--quiet, -v/--verbose, --color, --bytes, --no-header\n")
	} else {
		fmt.Fprintf(w, "\nGlobal flags:\n%s", cmd.PersistentFlags().FlagUsages())
		fmt.Fprintf(w, "\n%s COMMAND --help tells more.\n", cmd.Name())
	}
	if text := cmd.Annotations[ExitStatusKey]; text != "" {
		fmt.Fprintf(w, "\nExit status: %s\n", text)
	}
}

// writeCommands lists the commands by group.
func writeCommands(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "Usage: %s COMMAND [flags]\n", root.Name())
	for _, group := range root.Groups() {
		var lines []string
		width := 0
		for _, cmd := range root.Commands() {
			width = max(width, len(cmd.Name()))
		}
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && cmd.IsAvailableCommand() {
				args := strings.TrimPrefix(cmd.Use, cmd.Name())
				lines = append(lines, fmt.Sprintf("  %-*s %-14s %s", width, cmd.Name(), strings.TrimSpace(args), cmd.Short))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s:\n%s\n", group.Title, strings.Join(lines, "\n"))
		}
	}
}

// writeSubcommands lists the commands below another, in the order in which they were
// added.
func writeSubcommands(w io.Writer, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		fmt.Fprintf(w, "  %-8s %s\n", sub.Name(), sub.Short)
	}
	fmt.Fprintf(w, "\n%s COMMAND --help tells more.\n", cmd.CommandPath())
}
