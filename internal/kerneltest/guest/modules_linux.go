package guest

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func loadModules(names []string) error {
	for _, name := range names {
		if err := loadModule("/" + ModulesDir + "/" + name); err != nil {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
