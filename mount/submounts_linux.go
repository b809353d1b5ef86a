package mount

import (
	"context"
	"fmt"
)

// surroundings looks at the mounts around a source: whether any is below it, which
// is refused unless the request says what to do with it, and whether there are so
// many that it is cloned from an anchor.
func (m *Mounter) surroundings(ctx context.Context, src *source, req Request) error {
	n, below := 0, false
	spot, err := src.spot()
	if err == nil {
		n, below, err = m.cache.crowdIn(ctx, spot.mount, "/"+spot.rest)
	}
	if err != nil && ctx.Err() == nil && req.Submounts == RefuseSubmounts && src.id.dir && m.canProve(src, req) {
		return nil
	}
	if err != nil || below {
		err = m.refuseSubmounts(ctx, src, req)
	}
	if err == nil && n >= crowd && req.Propagation == PropagationPrivate && req.Submounts != IncludeSubmounts {
		m.anchor(src, spot)
	}
	return err
}

// refuseSubmounts reads the mount table, which says for sure.
func (m *Mounter) refuseSubmounts(ctx context.Context, src *source, req Request) error {
	if req.Submounts != RefuseSubmounts || !src.id.dir {
		return nil
	}
	dir, err := pathOf(src.fd)
	if err != nil {
		return err
	}
	at, found, err := m.mountBelow(ctx, src.id.mount, dir)
	if err == nil && found {
		err = fmt.Errorf("%w: %s", ErrSubmounts, quote(at))
	}
	return err
}

// mountBelow returns a mount that is attached in the mount below dir, if any is.
func (m *Mounter) mountBelow(ctx context.Context, mount uint64, dir string) (at string, found bool, err error) {
	table, err := readTableIn(ctx)
	if err != nil {
		return "", false, err
	}
	m.lines.Store(int64(len(table)))
	for _, info := range table {
		if uint64(info.Parent) != mount || uint64(info.ID) == mount {
			continue
		}
		if _, ok := below(dir, info.Mountpoint); ok {
			return info.Mountpoint, true, nil
		}
	}
	return "", false, nil
}

// anchor lets the source be cloned from the anchor of its mount, if the tier can.
func (m *Mounter) anchor(src *source, spot sourceSpot) {
	if tier, err := m.tier(); err != nil || tier < TierTreeAttr {
		return
	}
	if fd, ok := m.anchors.at(src, spot); ok {
		src.clone = fd
	}
}
