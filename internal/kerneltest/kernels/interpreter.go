package kernels

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// setInterpreter makes an ELF program name another loader, whose path may not be
// longer than that of the one before. A relative path is looked up from the
// directory that the program is started in.
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
