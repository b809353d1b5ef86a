package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/volumekit/volumekit/csi/bench/internal/subject"
)

// A process is the process of a subject.
type process struct {
	name    string
	cmd     *exec.Cmd
	input   io.WriteCloser
	reports *json.Decoder
}

// startProcess starts the program of a subject.
func startProcess(program string, c subject.Config) (*process, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &process{name: c.Subject, cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), subject.Variable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.reports = json.NewDecoder(output)
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// do has the subject carry an order out.
func (p *process) do(o subject.Order) (r subject.Report, err error) {
	if err = json.NewEncoder(p.input).Encode(o); err == nil {
		err = p.reports.Decode(&r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	return r, nil
}

// stop ends the process.
func (p *process) stop() error {
	if err := errors.Join(p.input.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
