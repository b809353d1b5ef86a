package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

// programs are those of a subject. All are the paths of programs, and empty where the subject has no such program.
type programs struct {
	name        string
	attach      string // the controller that attaches
	attacher    string
	provisioner string
	resizer     string
	isLeftOut   bool
	flags       []string // of the companions
}

// absolute returns our programs with absolute paths.
func (p programs) absolute() (programs, error) {
	var err, err2 error
	p.attach, err = filepath.Abs(p.attach)
	p.attacher, err2 = filepath.Abs(p.attacher)
	return p, errors.Join(err, err2)
}

// theirs returns the programs of the Kubernetes project.
func theirs() (p programs, err error) {
	p.name = "theirs"
	for sidecar, program := range map[kubeserver.Sidecar]*string{
		kubeserver.Attacher: &p.attacher, kubeserver.Provisioner: &p.provisioner, kubeserver.Resizer: &p.resizer,
	} {
		var missing error
		*program, missing = sidecar.Find()
		err = errors.Join(err, missing)
	}
	manager, missing := kubeserver.FindControllerManager()
	p.attach = manager
	return p, errors.Join(err, missing)
}

// A team are the running programs of a subject.
type team struct{ programs []*kubeserver.Program }

// start starts some programs of a subject: the controller that attaches, and companions.
func (c *cluster) start(attach string, companions ...string) (*team, error) {
	t := &team{}
	add := func(p *kubeserver.Program, err error) error {
		if err == nil {
			t.programs = append(t.programs, p)
		}
		return err
	}
	var err error
	switch {
	case attach == "":
	case filepath.Base(attach) == "kube-controller-manager":
		err = add(c.server.StartControllerManager(attach, []string{attachController}))
	default:
		err = add(c.server.StartProgram(attach, "-controllers="+attachController, "-leader-election=false"))
	}
	for _, program := range companions {
		switch {
		case err != nil || program == "":
		case program == c.subject.attacher && c.subject.provisioner == "": // ours is one program
			err = add(c.server.StartProgram(program, append([]string{"--csi-address=" + c.driver.socket}, c.subject.flags...)...))
		default:
			err = add(c.server.StartSidecar(program, c.driver.socket))
		}
	}
	if err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

// attachController is the name of the controller that attaches, for both.
const attachController = "persistentvolume-attach-detach-controller"

func (t *team) stop() {
	for _, p := range t.programs {
		p.Stop()
	}
}

// usage returns the processor time and the memory of all programs. One that has ended is an error.
func (t *team) usage() (all kubeserver.ProgramUsage, err error) {
	for _, p := range t.programs {
		u, failed := p.Usage()
		all.CPU += u.CPU
		all.Memory += u.Memory
		err = errors.Join(err, failed)
	}
	return all, err
}

// messages returns the last messages of all programs, for failures.
func (t *team) messages() (all string) {
	for _, p := range t.programs {
		all += "\n" + p.Messages()
	}
	return all
}

// share returns a processor time as a share of a duration.
func share(cpu, of time.Duration) string {
	return fmt.Sprintf("%.2f %% of a processor", 100*cpu.Seconds()/of.Seconds())
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
