// Command gendocs writes the reference of logtool from the commands themselves:
// Markdown to docs/cli and manual pages to docs/man. Run it at the top of the
// repository whenever a command or flag has changed:
//
//	go run ./cmd/logtool/internal/gendocs
//
// It is a program of its own so that logtool carries none of this.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog/cmd/logtool/internal/cli"
)

func main() {
	if err := write("docs"); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

// write writes all pages below dir.
func write(dir string) error {
	for name, text := range pages() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages returns all pages by their path below docs.
func pages() map[string][]byte {
	pages := map[string][]byte{}
	addPages(pages, cli.NewRoot(cli.System()))
	return pages
}

// addPages adds those of a command and of all below it.
func addPages(pages map[string][]byte, cmd *cobra.Command) {
	pages["cli/"+pageName(cmd)+".md"] = markdown(cmd)
	pages["man/"+pageName(cmd)+".1"] = manual(cmd)
	for _, sub := range documented(cmd) {
		addPages(pages, sub)
	}
}

// documented lists the commands below another that have a page.
func documented(parent *cobra.Command) (commands []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() {
			commands = append(commands, cmd)
		}
	}
	return commands
}

// pageName is the name of a command's page, without its ending.
func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// about is what a command does, in its own words.
func about(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return sentence(cmd.Short)
}

// sentence makes a sentence of the few words that stand for a command in a list.
func sentence(short string) string {
	return string(short[0]&^0x20) + short[1:] + "."
}
