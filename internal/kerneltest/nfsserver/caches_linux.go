package nfsserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// A caches is the connection to the kernel's caches of clients and exports.
type caches []*upcallFile

// fillCaches replaces all entries of the kernel's caches, and answers further questions.
func fillCaches(exports []Export) (c caches, err error) {
	for _, cache := range []struct {
		name  string
		table table
	}{
		{"auth.unix.ip", clients(IPv4, IPv6, near)},
		{"nfsd.export", directories(exports...)},
		{"nfsd.fh", handles(exports...)},
	} {
		dir := "/proc/thread-self/net/rpc/" + cache.name
		if err := writeFile(dir+"/flush", "1\n"); err != nil {
			return nil, errors.Join(err, c.end())
		}
		file, err := openUpcallFile(dir + "/channel")
		if err != nil {
			return nil, errors.Join(err, c.end())
		}
		if err := fill(file, cache.table); err != nil {
			return nil, errors.Join(err, file.Close(), c.end())
		}
		c = append(c, answerUpcalls(file, cache.table.answer))
	}
	return c, nil
}

func fill(file *os.File, t table) error {
	for question := range t {
		line := t.answer([]byte(question))
		if _, err := file.Write(line); err != nil {
			return fmt.Errorf("write %q: %w", line, err)
		}
	}
	return nil
}

// answer answers a question of the kernel by line. An answer outlives every test.
func (t table) answer(question []byte) []byte {
	expires := time.Now().Add(24 * time.Hour).Unix()
	return []byte(t.line(string(bytes.TrimSpace(question)), expires))
}

func (c caches) end() (err error) {
	for _, t := range c {
		err = errors.Join(err, t.end())
	}
	return err
}
