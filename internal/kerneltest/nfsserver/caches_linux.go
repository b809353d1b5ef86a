package nfsserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// A caches is the conversation about clients and directories.
type caches []*talk

// fillCaches gives the kernel all answers, instead of the ones that it had, and
// listens for more questions.
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
		file, err := openTalk(dir + "/channel")
		if err != nil {
			return nil, errors.Join(err, c.end())
		}
		if err := fill(file, cache.table); err != nil {
			return nil, errors.Join(err, file.Close(), c.end())
		}
		c = append(c, listen(file, cache.table.answer))
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

// answer is line for the kernel's questions. An answer outlives every test.
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
