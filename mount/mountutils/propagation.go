package mountutils

import (
	"context"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// propagation returns the kernel's default: a mount on a shared mount is shared, and a bind
// mount has the propagation of its source's mount.
func (m *Mounter) propagation(ctx context.Context, req mount.Request) (mount.Propagation, error) {
	on, err := m.kernel().Resolve(ctx, req.Target)
	if err != nil {
		return 0, err
	}
	if hasTag(on.Mount, "shared:") {
		return mount.PropagationShared, nil
	}
	if req.FSType != "" {
		return mount.PropagationPrivate, nil
	}
	from, err := m.kernel().Resolve(ctx, req.Source)
	switch {
	case err != nil:
		return 0, err
	case hasTag(from.Mount, "shared:"):
		return mount.PropagationShared, nil
	case hasTag(from.Mount, "master:"):
		return mount.PropagationSlave, nil
	}
	return mount.PropagationPrivate, nil
}

func hasTag(info mount.Info, prefix string) bool {
	for _, tag := range info.Tags {
		if strings.HasPrefix(tag, prefix) {
			return true
		}
	}
	return false
}
