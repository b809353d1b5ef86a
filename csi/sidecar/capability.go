package sidecar

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// capabilities are those of a driver.
type capabilities struct {
	topology                 bool // VOLUME_ACCESSIBILITY_CONSTRAINTS
	create, clone, modify    bool
	publish, publishReadOnly bool
	list, publishedNodes     bool
	capacity                 bool
	expand, nodeExpand       bool
	singleNodeMultiWriter    bool
	hasController            bool
}

// readCapabilities reads the capabilities of all services. A driver without a controller service has those
// of its node service alone.
func readCapabilities(ctx context.Context, conn grpc.ClientConnInterface) (c capabilities, err error) {
	plugin, err := csipb.NewIdentityClient(conn).GetPluginCapabilities(ctx, &csipb.GetPluginCapabilitiesRequest{})
	if err != nil {
		return c, err
	}
	c.addPlugin(plugin)
	if c.hasController {
		controller, err := csipb.NewControllerClient(conn).ControllerGetCapabilities(ctx, &csipb.ControllerGetCapabilitiesRequest{})
		if err != nil {
			return c, err
		}
		c.addController(controller)
	}
	if c.expand {
		return c, nil // the driver says with each expansion whether a node has to finish it
	}
	node, err := csipb.NewNodeClient(conn).NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
	if codeOf(err) == codes.Unimplemented { // this process of the driver serves no nodes
		return c, nil
	}
	c.addNode(node)
	return c, err
}

func (c *capabilities) addPlugin(answer *csipb.GetPluginCapabilitiesResponse) {
	for _, capability := range answer.GetCapabilities() {
		switch capability.GetService().GetType() {
		case csipb.PluginCapability_Service_CONTROLLER_SERVICE:
			c.hasController = true
		case csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS:
			c.topology = true
		}
	}
}

func (c *capabilities) addController(answer *csipb.ControllerGetCapabilitiesResponse) {
	fields := map[csipb.ControllerServiceCapability_RPC_Type]*bool{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:         &c.create,
		csipb.ControllerServiceCapability_RPC_CLONE_VOLUME:                 &c.clone,
		csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME:                &c.modify,
		csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:     &c.publish,
		csipb.ControllerServiceCapability_RPC_PUBLISH_READONLY:             &c.publishReadOnly,
		csipb.ControllerServiceCapability_RPC_LIST_VOLUMES:                 &c.list,
		csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES: &c.publishedNodes,
		csipb.ControllerServiceCapability_RPC_GET_CAPACITY:                 &c.capacity,
		csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME:                &c.expand,
		csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:     &c.singleNodeMultiWriter,
	}
	for _, capability := range answer.GetCapabilities() {
		if field, ok := fields[capability.GetRpc().GetType()]; ok {
			*field = true
		}
	}
}

func (c *capabilities) addNode(answer *csipb.NodeGetCapabilitiesResponse) {
	for _, capability := range answer.GetCapabilities() {
		if capability.GetRpc().GetType() == csipb.NodeServiceCapability_RPC_EXPAND_VOLUME {
			c.nodeExpand = true
		}
	}
}
