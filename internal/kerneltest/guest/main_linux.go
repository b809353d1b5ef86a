package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/link"
	"golang.org/x/sys/unix"
)

// Main runs the guest from its first instruction to its end. It does not return.
func Main() {
	code := Failed
	err := openConsole()
	if err == nil {
		fmt.Print(Begin)
		code, err = runTask()
	}
	if err != nil {
		fmt.Println("guest:", err)
	}
	fmt.Print(End(code))
	for {
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		time.Sleep(time.Second)
	}
}

// openConsole connects the program with the host, without any translation of bytes.
func openConsole() error {
	if err := mount("devtmpfs", "devtmpfs", "/dev", "", 0); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	for std := range 3 {
		if err := unix.Dup3(fd, std, 0); err != nil && fd != std {
			return err
		}
	}
	term, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	term.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(fd, unix.TCSETS, term)
}

func runTask() (code int, err error) {
	task, err := readTask()
	if err != nil {
		return Failed, err
	}
	if err := loadModules(task.Modules); err != nil {
		return Failed, err
	}
	test, err := os.ReadFile("/" + TestFile)
	if err != nil {
		return Failed, err
	}
	if err := assembleRoot(task.Writable); err != nil {
		return Failed, err
	}
	if err := link.Up("lo"); err != nil {
		return Failed, err
	}
	if err := os.WriteFile(program, test, 0o755); err != nil {
		return Failed, err
	}
	code, err = run(task)
	return code, errors.Join(err, sync(task.Writable))
}

// sync flushes the writable directories of the host. sync(2) would wait for all file
// systems, and a test may leave one whose server is dead.
func sync(dirs []string) (err error) {
	for _, dir := range dirs {
		fd, openErr := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if openErr != nil {
			err = errors.Join(err, &os.PathError{Op: "open", Path: dir, Err: openErr})
			continue
		}
		err = errors.Join(err, os.NewSyscallError("syncfs", unix.Syncfs(fd)), unix.Close(fd))
	}
	return err
}

func readTask() (task Task, err error) {
	text, err := os.ReadFile("/" + TaskFile)
	if err != nil {
		return task, err
	}
	return task, json.Unmarshal(text, &task)
}
