import { byId } from "../shared/dom";

byId("main").dataset.ready = "true";
