// The demo page.
import { byId } from "../shared/dom";

byId("main").textContent = byId("facts").textContent;
