package disk

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/util/diskprobe"
	"golang.org/x/sys/unix"
)

// identityOf reads the identity of a device from sysfs; values that sysfs lacks stay empty.
// It fails like stackOf.
func identityOf(number uint64) (Identity, error) {
	r := &reader{}
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(number), unix.Minor(number))
	i := Identity{Boot: r.word("/proc/sys/kernel/random/boot_id")}
	if part := r.word(dir + "/partition"); part != "" {
		i.Part = part + "@" + r.word(dir+"/start")
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = path.Dir(real)
		}
	}
	i.Sequence, _ = strconv.ParseUint(r.word(dir+"/diskseq"), 10, 64)
	for _, file := range []string{"wwid", "device/wwid", "dm/uuid", "md/uuid", "serial", "device/serial"} {
		if id := r.word(path.Join(dir, file)); id != "" {
			i.ID = path.Base(file) + ":" + id
			break
		}
	}
	return i, r.err
}

// isMountedAnywhere reports whether sysfs shows that the kernel has the file system of a device active:
// mounted in any mount namespace, or detached and still used. Ext2 and ext3 are mounted by the driver of
// ext4. False proves nothing.
func isMountedAnywhere(device Info, there diskprobe.Found) bool {
	if device.Number == 0 {
		return false
	}
	node, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", device.Major, device.Minor))
	if err != nil {
		return false
	}
	name := path.Base(node)
	dir := map[string]string{"xfs": "xfs/" + name, "btrfs": "btrfs/" + there.UUID + "/devices/" + name}[there.Name]
	if isExt(there.Name) {
		dir = "ext4/" + name
	}
	_, err = os.Stat("/sys/fs/" + dir)
	return dir != "" && err == nil
}

// A reader reads small files that may be missing.
type reader struct{ err error }

func (r *reader) word(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		r.note(err)
		return ""
	}
	return strings.TrimSpace(string(text))
}

// note keeps an error that does not mean a missing file.
func (r *reader) note(err error) {
	if isShortage(err) {
		r.err = err
	}
}

// isShortage reports whether an error is about this process or the node instead of the
// file.
func isShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
