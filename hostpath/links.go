package hostpath

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/volumekit/volumekit/internal/input"
)

// A LinkError is the error of a symbolic link that is not followed. It is part of a
// [*TypeError], and wraps ELOOP.
type LinkError struct {
	Link   string // its path
	To     string // its target, as stored
	Reason string // names the field of [Config] that decides
}

// Error names the link and the reason.
func (e *LinkError) Error() string {
	return fmt.Sprintf("symbolic link %s to %s: %s", input.Quote(e.Link), input.Quote(e.To), e.Reason)
}

// Unwrap returns ELOOP, which is the kernel's error for a link that must not be followed.
func (e *LinkError) Unwrap() error { return syscall.ELOOP }

const (
	notInLinks   = "its directory is not below one of hostpath.Config.Links"
	notRoots     = "hostpath.Config.Links follows links of root alone, in directories that only root can write to"
	leadsOut     = "it leads to a path that is not below one of hostpath.Config.Roots"
	tooMany      = "more than 40 links on the way"
	mostFollowed = 40
)

// follow opens the file at a path, and follows symbolic links on the way as [Config.Links]
// permits.
func (p *Plugin) follow(name string) (found, error) {
	there, err := open(name)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return p.walk(name)
	}
	return there, err
}
