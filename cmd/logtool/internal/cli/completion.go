package cli

import (
	"github.com/spf13/cobra"
)

// shells are those that completion knows.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCommand(app *App) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "a script that completes commands, flags and directories",
		Long: `Print a script for bash, zsh, fish or powershell that completes the commands and
flags of logtool, their values, and directories.`,
		Example: `  source <(logtool completion bash)
  logtool completion zsh > "${fpath[1]}/_logtool"`,
		GroupID:           groupOther,
		Args:              oneArg("SHELL"),
		ValidArgsFunction: completeOnce(shells...),
		Annotations:       exitStatus("0 done, 2 usage."),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(app.Out, true)
			case "zsh":
				return root.GenZshCompletion(app.Out)
			case "fish":
				return root.GenFishCompletion(app.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(app.Out)
			}
			return UsageErrorf("unknown shell %q, want bash, zsh, fish or powershell", args[0])
		},
	}
}

// completer completes the arguments of a command.
type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeOnce completes the only argument of a command to one of values.
func completeOnce(values ...string) completer {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeDirs completes the argument of a command that takes one directory.
func completeDirs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completePath completes the argument of a command that takes a directory or a
// file.
func completePath(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completePaths is completePath for a command that takes any number.
func completePaths(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// completeCommands completes to the names of commands.
func completeCommands(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, sub := range cmd.Root().Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name()+"\t"+sub.Short)
		}
	}
	return completeOnce(names...)(cmd, args, toComplete)
}
