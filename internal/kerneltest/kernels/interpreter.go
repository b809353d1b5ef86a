package kernels

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// setInterpreter replaces the loader's path in an ELF program by one that is not longer. A
// relative path is relative to the directory in which the program is started.
func setInterpreter(program, path string) error {
	f, err := os.OpenFile(program, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = patchInterpreter(f, path)
	return errors.Join(err, f.Close())
}

func patchInterpreter(f *os.File, path string) error {
	parsed, err := elf.NewFile(f)
	if err != nil {
		return err
	}
	for _, p := range parsed.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		field := make([]byte, p.Filesz)
		if len(path) >= len(field) {
			return fmt.Errorf("%s names its loader in %d bytes, too few for %s", f.Name(), len(field), path)
		}
		copy(field, path)
		_, err := f.WriteAt(field, int64(p.Off))
		return err
	}
	return fmt.Errorf("%s names no loader", f.Name())
}
