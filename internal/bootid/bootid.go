// Package bootid reads the ID of the running system. Records with the ID of an earlier start are of mounts
// that do not exist any more.
package bootid

import (
	"fmt"
	"os"
	"strings"
)

// Read returns the ID of the running system, which changes with each start. It is empty on systems without
// one: then records hold beyond a restart of the machine.
func Read() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the ID of the running system: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// IsEarlier reports whether a recorded ID is that of an earlier start than now's. An empty ID is of an
// unknown start.
func IsEarlier(recorded, now string) bool {
	return recorded != "" && now != "" && recorded != now
}
