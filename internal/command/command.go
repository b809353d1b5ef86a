// Package command runs programs whose messages belong into the error.
package command

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Output runs a command and returns its standard output. Its error includes the messages that
// the command wrote to its standard error.
func Output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	said := ""
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		said = ": " + strings.Join(strings.Fields(string(exit.Stderr)), " ")
	}
	return "", fmt.Errorf("%s: %w%s", filepath.Base(cmd.Path), err, said)
}
