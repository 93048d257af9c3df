function n(e){let t=document.getElementById(e);if(t===null)throw new Error(`the page lacks #${e}`);return t}n("main").dataset.ready="true";
