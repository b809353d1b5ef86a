package boot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
	"github.com/volumekit/volumekit/internal/kerneltest/initrd"
	"github.com/volumekit/volumekit/internal/kerneltest/modules"
)

// guestModules lists the modules of a guest; its kernel may lack some.
var guestModules = []string{"overlay", "loop", "fuse", "quota_v2", "ipv6", "veth", "bridge", "nfs", "nfsv3", "nfsv4", "nfsd"}

// writeImage writes the guest's initial archive to a file: this program, the test binary,
// modules and the task, to which it adds the modules' names.
func writeImage(file, test, moduleDir string, task guest.Task) error {
	entries := []initrd.Entry{
		{Name: "dev", Mode: initrd.Directory},
		{Name: "dev/console", Mode: initrd.Console, Major: 5, Minor: 1},
		{Name: guest.ModulesDir, Mode: initrd.Directory},
	}
	loaded, err := readModules(moduleDir, &task)
	if err != nil {
		return err
	}
	entries = append(entries, loaded...)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	shared, err := libraries(self)
	if err != nil {
		return fmt.Errorf("the libraries of %s: %w", self, err)
	}
	entries = append(entries, shared...)
	for name, source := range map[string]string{guest.InitFile: self, guest.TestFile: test} {
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		entries = append(entries, initrd.Entry{Name: name, Mode: initrd.Executable, Data: data})
	}
	text, err := json.Marshal(task)
	if err != nil {
		return err
	}
	return writeFile(file, append(entries, initrd.Entry{Name: guest.TaskFile, Mode: initrd.Executable, Data: text}))
}

// readModules returns the modules as entries and adds their names to the task, in load
// order.
func readModules(dir string, task *guest.Task) (entries []initrd.Entry, err error) {
	dep, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	for _, path := range modules.Parse(string(dep)).Order(guestModules...) {
		data, err := readModule(filepath.Join(dir, path))
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", path, err)
		}
		name := modules.Name(path)
		task.Modules = append(task.Modules, name)
		entries = append(entries, initrd.Entry{Name: guest.ModulesDir + "/" + name, Mode: initrd.Executable, Data: data})
	}
	return entries, nil
}

func readModule(path string) ([]byte, error) {
	if strings.HasSuffix(path, ".xz") {
		return exec.Command("xz", "-dc", path).Output()
	}
	return os.ReadFile(path)
}

func writeFile(name string, entries []initrd.Entry) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	if err := initrd.Write(w, entries); err != nil {
		return err
	}
	return w.Flush()
}
