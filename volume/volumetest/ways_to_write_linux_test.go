package volumetest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/util/ownership"
)

// The ways in which a plugin of the test writes, changes, reads or removes its file. Most follow the links of a pod
// or wait for its FIFO; a comment says which are sound.

func writeFile(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte("blue"), 0o644)
}

// writeOnce leaves an existing entry as it is.
func writeOnce(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	return writeFile(file)
}

func changeMode(file string) error {
	if err := writeOnce(file); err != nil {
		return err
	}
	return os.Chmod(file, 0o644)
}

// changePods changes the modes of entries that the plugin has not made, and follows links.
func changePods(file string) error {
	pods, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(file)), "volumetest-*"))
	for _, entry := range pods {
		err = errors.Join(err, ignoreMissing(os.Chmod(entry, 0o666)))
	}
	return errors.Join(err, writeOnce(file))
}

func makeSocket(file string) error {
	if err := writeOnce(file); err != nil {
		return err
	}
	socket := filepath.Join(filepath.Dir(file), "socket")
	if err := syscall.Mknod(socket, syscall.S_IFSOCK|0o600, 0); ignoreMissing(err) != nil {
		return err
	}
	return os.Chmod(socket, 0o666)
}

func setSameMode(file string) error {
	if err := writeOnce(file); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.Chmod(file, info.Mode())
}

// writeAndRename writes a missing file with a name that a pod can foresee.
func writeAndRename(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	return errors.Join(writeFile(file+".tmp"), os.Rename(file+".tmp", file))
}

// writeManyAndRename makes more entries than the contract replaces.
func writeManyAndRename(file string) error {
	for i := range 20 {
		if err := writeOnce(filepath.Join(filepath.Dir(file), fmt.Sprint(i))); err != nil {
			return err
		}
	}
	return writeAndRename(file)
}

// writeMissing follows a link to see whether the file is there.
func writeMissing(file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	return writeFile(file)
}

// writeUnlessMarked writes the file of a volume that is not marked as complete.
func writeUnlessMarked(file string) error {
	mark := filepath.Join(filepath.Dir(file), "complete")
	if _, err := os.Lstat(mark); err == nil {
		return nil
	}
	return errors.Join(writeFile(file), os.Symlink("settings", mark))
}

func changeEmptyDir(file string) error {
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), "cache")
	return errors.Join(ignoreMissing(os.Mkdir(dir, 0o755)), os.Chmod(dir, 0o777))
}

func linkBelow(file string) error {
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), "links")
	return errors.Join(ignoreMissing(os.Mkdir(dir, 0o755)), ignoreMissing(os.Remove(dir+"/link")), os.Symlink("target", dir+"/link"))
}

// giveByOwnership is sound, though ownership.Apply changes a file with a hard link in the volume.
func giveByOwnership(file string, group int64) error {
	dir := filepath.Dir(filepath.Dir(file))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile("once", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	_, given := ownership.Apply(context.Background(), dir, ownership.Options{Group: &group})
	return errors.Join(ignoreMissing(err), given)
}

// createBelow creates a file and its parents. It does not change existing ones.
func createBelow(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return ignoreMissing(err)
	}
	return f.Close()
}

// move writes under a new name, and moves the file as mv(1) does: into a directory at the name.
func move(file string) error {
	dir := filepath.Dir(filepath.Dir(file))
	file = filepath.Join(dir, "moved")
	next, err := os.CreateTemp(dir, "next-*")
	if err != nil {
		return err
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, filepath.Base(next.Name()))
	}
	return errors.Join(next.Close(), os.Rename(next.Name(), file))
}

// writeBeside is sound: it makes the file in a new directory, and removes the directory.
func writeBeside(file string) error {
	root, err := os.OpenRoot(filepath.Dir(filepath.Dir(file)))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	const beside = "beside"
	if err := errors.Join(root.RemoveAll(beside), root.Mkdir(beside, 0o755)); err != nil {
		return err
	}
	f, err := root.OpenFile(beside+"/color", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), root.RemoveAll("settings"), root.Rename(beside+"/color", "color"), root.Remove(beside))
}

func changeTime(file string) error {
	if err := writeOnce(file); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(file, now, now)
}

func changeOwner(file string) error {
	if err := writeOnce(file); err != nil {
		return err
	}
	return os.Chown(file, 4321, 4321)
}

// compare reads the file, and writes it anew only if it differs.
func compare(file string) error {
	if text, err := os.ReadFile(file); err == nil && string(text) == "blue" {
		return nil
	}
	return replaceFile(file)
}

// replaceFile is sound: it stays within the volume, and replaces an entry instead of opening it.
func replaceFile(file string) error {
	dir := filepath.Dir(file)
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir("settings", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	const next = "settings/.next"
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("blue")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(next, "settings/color")
}

// refuseLinks is sound: SetUp fails for an entry that it has not made.
func refuseLinks(file string) error {
	for name, want := range map[string]fs.FileMode{filepath.Dir(file): fs.ModeDir, file: 0} {
		if info, err := os.Lstat(name); err == nil && info.Mode().Type() != want {
			return errors.New("not an entry of the plugin")
		}
	}
	return writeOnce(file)
}

// refuseSlowly is sound: it takes its time, and does not wait for the other end of a FIFO.
func refuseSlowly(file string) error {
	if err := refuseFIFO(file); err != nil {
		time.Sleep(1200 * time.Millisecond)
		return err
	}
	return writeOnce(file)
}

func removeFile(file string) error { return ignoreMissing(os.Remove(file)) }

func readFile(file string) error {
	_, err := os.ReadFile(file)
	return ignoreMissing(err)
}

var errKept = errors.New("the volume stays")

// keepLink lets TearDown leave a volume with a link in the place of the file, without an error.
func keepLink(file string) error {
	if info, err := os.Lstat(file); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return errKept
	}
	return nil
}

func readSlowly(file string) error {
	err := readFile(file)
	if info, missing := os.Lstat(file); missing == nil && info.Mode().Type() == fs.ModeNamedPipe {
		time.Sleep(1200 * time.Millisecond)
	}
	return err
}

func refuseFIFO(file string) error {
	if info, err := os.Lstat(file); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return errors.New("no regular file")
	}
	return nil
}

// refuseStray lets TearDown fail for a file that is not the plugin's.
func refuseStray(file string) error {
	if stray, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(file)), "volumetest-*")); len(stray) > 0 {
		return errors.New("the directory has other files")
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
