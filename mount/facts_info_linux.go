package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// askAll is what makes a line of the mount table (Linux 6.13).
const askAll = askDevice | askMount | askOrigin | askRoot | askPoint | askType | askSubtype |
	askSource | askOptions | askSecurity

// info returns the line of the mount table for a mount, if it is in it.
func (l *look) info(id uint64) (_ Info, ok bool, err error) {
	f, err := l.ask(id, askAll)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, false, nil
	}
	if err != nil || len(f.pointPath()) == 0 {
		return Info{}, false, err
	}
	return f.info(), true, nil
}

func (f facts) info() Info {
	root, deleted := strings.CutSuffix(string(f.rootPath()), deletedMark)
	return Info{
		ID: int(f.idOld), Parent: int(f.parentOld),
		Major: f.major, Minor: f.minor,
		Root: root, Deleted: deleted,
		Mountpoint:   string(f.pointPath()),
		Flags:        flagsOf(f.attrs),
		Options:      f.mountOptions(),
		Tags:         f.tags(),
		FSType:       f.fullType(),
		Source:       string(f.bytes(askSource, f.source)),
		SuperOptions: f.superOptions(),
	}
}

func (f facts) fullType() string {
	fsType := string(f.bytes(askType, f.fsType))
	if sub := f.bytes(askSubtype, f.subtype); len(sub) > 0 {
		return fsType + "." + string(sub)
	}
	return fsType
}

// printed are the options of a mount, in the order of the table.
var printed = []struct {
	attr   uint64
	option string
}{
	{unix.MOUNT_ATTR_NOSUID, "nosuid"},
	{unix.MOUNT_ATTR_NODEV, "nodev"},
	{unix.MOUNT_ATTR_NOEXEC, "noexec"},
	{unix.MOUNT_ATTR_NOATIME, "noatime"},
	{unix.MOUNT_ATTR_NODIRATIME, "nodiratime"},
	{0, "relatime"}, // it is the atime attribute without a bit
	{unix.MOUNT_ATTR_NOSYMFOLLOW, "nosymfollow"},
	{unix.MOUNT_ATTR_IDMAP, "idmapped"},
}

func (f facts) mountOptions() []string {
	options := []string{readOnlyOption(f.attrs&unix.MOUNT_ATTR_RDONLY != 0)}
	for _, p := range printed {
		if f.attrs&p.attr != 0 || p.attr == 0 && f.attrs&unix.MOUNT_ATTR__ATIME == 0 {
			options = append(options, p.option)
		}
	}
	return options
}

func readOnlyOption(readOnly bool) string {
	if readOnly {
		return "ro"
	}
	return "rw"
}

func (f facts) tags() []string {
	tags := []string{}
	if f.propagation&unix.MS_SHARED != 0 {
		tags = append(tags, fmt.Sprintf("shared:%d", f.peers))
	}
	if f.propagation&unix.MS_SLAVE != 0 {
		tags = append(tags, fmt.Sprintf("master:%d", f.master))
		if f.has(askOrigin) && f.from != 0 && f.from != f.master {
			tags = append(tags, fmt.Sprintf("propagate_from:%d", f.from))
		}
	}
	if f.propagation&unix.MS_UNBINDABLE != 0 {
		tags = append(tags, "unbindable")
	}
	return tags
}

func (f facts) superOptions() []string {
	options := []string{readOnlyOption(f.superFlags&superReadOnly != 0)}
	for _, p := range []struct {
		flag   uint32
		option string
	}{{unix.MS_SYNCHRONOUS, "sync"}, {unix.MS_DIRSYNC, "dirsync"}, {unix.MS_LAZYTIME, "lazytime"}} {
		if f.superFlags&p.flag != 0 {
			options = append(options, p.option)
		}
	}
	options = append(options, f.strings(askSecurity, f.securityAt, f.security)...)
	return append(options, f.strings(askOptions, f.optionsAt, f.options)...)
}
