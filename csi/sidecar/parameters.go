package sidecar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	v1 "k8s.io/api/core/v1"
)

// A secretUse is a call, or a group of calls, with a Secret of its own. Its text begins the names of its
// parameters.
type secretUse string

const (
	forProvisioner       secretUse = "provisioner"
	forControllerPublish secretUse = "controller-publish"
	forControllerExpand  secretUse = "controller-expand"
	forNodeStage         secretUse = "node-stage"
	forNodePublish       secretUse = "node-publish"
	forNodeExpand        secretUse = "node-expand"
	forControllerModify  secretUse = "controller-modify"
)

var secretUses = []secretUse{
	forProvisioner, forControllerPublish, forControllerExpand, forNodeStage, forNodePublish, forNodeExpand, forControllerModify,
}

// classParameters are the parameters of a class by their purpose.
type classParameters struct {
	driver  map[string]string // for the driver
	fsType  string
	secrets map[secretUse]secretTemplate
}

// parseParameters separates the parameters of a class. An unknown reserved one is an error: it may be one
// of a later version, without which volumes would differ. With an error, p has the other parameters.
func parseParameters(written map[string]string) (p classParameters, err error) {
	p.secrets = map[secretUse]secretTemplate{}
	p.driver = map[string]string{}
	known := map[string]*string{fsTypeKey: &p.fsType}
	templates := map[secretUse]*secretTemplate{"": {}} // "": the default of all uses
	for _, use := range secretUses {
		templates[use] = new(secretTemplate)
	}
	for use, template := range templates {
		known[secretKey(use, "name")], known[secretKey(use, "namespace")] = &template.name, &template.namespace
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		switch field, ok := known[key]; {
		case ok && written[key] == "":
			err = cmp.Or(err, fmt.Errorf("parameter %s of the class must not be empty", key))
		case ok:
			*field = written[key]
		case strings.HasPrefix(key, reserved):
			err = cmp.Or(err, fmt.Errorf("parameter %s of the class is unknown, and %s is reserved", input.Quote(key), reserved))
		default:
			p.driver[key] = written[key]
		}
	}
	for _, use := range secretUses {
		if p.secrets[use] = *templates[use]; p.secrets[use] == (secretTemplate{}) {
			p.secrets[use] = *templates[""]
		}
	}
	return p, cmp.Or(err, p.addPlainFSType())
}

func secretKey(use secretUse, part string) string {
	if use == "" {
		return reserved + "secret-" + part
	}
	return reserved + string(use) + "-secret-" + part
}

// addPlainFSType sets the file system from the older parameter.
func (p *classParameters) addPlainFSType() error {
	for key, value := range p.driver {
		if !strings.EqualFold(key, plainFSTypeKey) {
			continue
		}
		if p.fsType != "" {
			return fmt.Errorf("parameters of the class: %s has more than one value", plainFSTypeKey)
		}
		p.fsType = value
	}
	return nil
}

// references returns the Secrets of a claim's volume, and with an error the other ones.
func (p classParameters) references(volumeName string, claim *v1.PersistentVolumeClaim) (all map[secretUse]*v1.SecretReference, err error) {
	all = map[secretUse]*v1.SecretReference{}
	for _, use := range secretUses {
		ref, refused := p.secrets[use].resolve(volumeName, claim)
		if refused != nil {
			err = cmp.Or(err, fmt.Errorf("%s: %w", use, refused))
			continue
		}
		all[use] = ref
	}
	return all, err
}
