package csi

import (
	"fmt"
	"os"
	"strings"
)

// bootID returns the ID of the running system, which changes with each start. It is empty on systems
// without one: then recorded calls hold beyond a restart of the machine.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the ID of the running system: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
