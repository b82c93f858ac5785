package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// enumFlag is a flag with a fixed list of values.
type enumFlag struct {
	value  string
	values []string
}

func newEnum(initial string, values ...string) *enumFlag {
	return &enumFlag{value: initial, values: values}
}

func (f *enumFlag) String() string { return f.value }
func (f *enumFlag) Type() string   { return "NAME" }

func (f *enumFlag) Set(s string) error {
	if !slices.Contains(f.values, s) {
		return fmt.Errorf("want %s", f.choices())
	}
	f.value = s
	return nil
}

// choices is the values in words: a, b or c.
func (f *enumFlag) choices() string {
	last := len(f.values) - 1
	return strings.Join(f.values[:last], ", ") + " or " + f.values[last]
}

// addEnumFlag adds a flag that completes to its values, which usage need not
// list.
func addEnumFlag(cmd *cobra.Command, flags *pflag.FlagSet, f *enumFlag, name, shorthand, usage string) {
	flags.VarP(f, name, shorthand, usage+": "+f.choices())
	completeFlag(cmd, name, f.values...)
}

// countFlag is a number of things, of which there is at least one.
type countFlag struct{ n *int64 }

func (f countFlag) String() string {
	if f.n == nil {
		return "0"
	}
	return strconv.FormatInt(*f.n, 10)
}

func (f countFlag) Type() string { return "N" }

func (f countFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return errors.New("want a number, 1 or more")
	}
	*f.n = n
	return nil
}

// addCountFlag adds a flag that sets n, which stays as it is without.
func addCountFlag(cmd *cobra.Command, n *int64, name, shorthand, usage string) {
	cmd.Flags().VarP(countFlag{n}, name, shorthand, usage)
	completeFlag(cmd, name)
}

// addLimitFlag adds -n, which means the same in every command that lists.
func addLimitFlag(cmd *cobra.Command, n *int64, what string) {
	*n = math.MaxInt64
	addCountFlag(cmd, n, "limit", "n", "at most N "+what)
	cmd.Flag("limit").DefValue = "" // nobody wants to read it
}

// completeFlag completes a flag to values, and never to files.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	// It fails for a flag that does not exist or completes already.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
